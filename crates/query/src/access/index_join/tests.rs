//! Tests of index joins against hash joins.
