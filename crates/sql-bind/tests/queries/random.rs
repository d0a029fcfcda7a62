//! Random queries: whatever is bound holds together.

use perigee_testkit::QueryGenerator;

use crate::catalog::{Session, bound, catalog};

/// Queries of a run.
const QUERIES: usize = 5_000;

/// Errors that such queries may have: what is not grouped, or stands where it may not, or does not compare.
const MAY_FAIL: &[u16] = &[1055, 1056, 1111, 1140, 1235, 1525, 3065, 3593, 3594];

#[test]
fn what_is_bound_holds_together() {
    let mut session: Session = catalog();
    let mut count = 0;
    for seed in 0..QUERIES {
        let mut generator = QueryGenerator::new(seed as u64, false);
        let sql = generator.query(2, 3);
        session.only_full_group_by = seed % 4 == 0;
        match bound(&sql, &session) {
            Ok(query) => {
                count += 1;
                if let Err(fault) = query.check() {
                    panic!("seed {seed}: {sql}\n{fault}\nof\n{query}");
                }
            }
            Err(error) => {
                assert!(
                    // HAVING names what the select list or GROUP BY has.
                    error.number() == 1054 && sql.contains(" HAVING ")
                        || MAY_FAIL.contains(&error.number()),
                    "seed {seed}: {sql}\n{error}"
                );
            }
        }
    }
    assert!(count > QUERIES / 3, "only {count} queries were bound");
}
