//! JOIN_ORDER, JOIN_PREFIX and JOIN_SUFFIX: which tables are to be joined before which others.

use std::collections::HashMap;

use perigee_sql_bind::query::{Hint, Others, Query};

use crate::access::JoinPlace;

/// Most tables of a SELECT whose order hints can say.
const PLACES: usize = 64;

/// Where hints want tables in the order of joins, by references. A hint that contradicts those before it says nothing.
pub(super) fn join_places(query: &Query) -> HashMap<usize, JoinPlace> {
    let mut places = HashMap::new();
    for hint in &query.hints {
        let Hint::JoinOrder {
            select,
            others,
            tables,
        } = hint
        else {
            continue;
        };
        let own = query.tables.iter().filter(|table| table.select == *select);
        let own: Vec<usize> = own.map(|table| table.reference).take(PLACES).collect();
        let own = own.iter().enumerate().map(|(number, reference)| {
            let start = JoinPlace {
                select: *select,
                own: 1 << number,
                after: 0,
            };
            let known: Option<&JoinPlace> = places.get(reference);
            (*reference, known.copied().unwrap_or(start))
        });
        let mut own: Vec<(usize, JoinPlace)> = own.collect();
        let bit = |own: &[(usize, JoinPlace)], table: usize| {
            let found = own.iter().find(|(reference, _)| *reference == table);
            found.map_or(0, |(_, place)| place.own)
        };
        let all = own.iter().fold(0, |all, (_, place)| all | place.own);
        let named = tables.iter().fold(0, |all, table| all | bit(&own, *table));
        let mut before = match others {
            Others::Before => all & !named,
            Others::Anywhere | Others::Behind => 0,
        };
        for table in tables {
            let own_bit = bit(&own, *table);
            for (_, place) in own.iter_mut().filter(|(_, place)| place.own == own_bit) {
                place.after |= before;
            }
            before |= own_bit;
        }
        if *others == Others::Behind {
            let behind = own.iter_mut().filter(|(_, place)| place.own & named == 0);
            behind.for_each(|(_, place)| place.after |= named);
        }
        if can_be_ordered(&own) {
            places.extend(own);
        }
    }
    places
}

/// True if there is an order in which each table comes behind those that it has to.
fn can_be_ordered(places: &[(usize, JoinPlace)]) -> bool {
    let (mut done, mut left) = (0, places.to_vec());
    while !left.is_empty() {
        let count = left.len();
        let ready = |place: &JoinPlace| place.after & !done == 0;
        let found: u64 = left
            .iter()
            .filter(|(_, place)| ready(place))
            .fold(0, |all, (_, place)| all | place.own);
        left.retain(|(_, place)| place.own & found == 0);
        done |= found;
        if left.len() == count {
            return false;
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(number: usize, after: u64) -> (usize, JoinPlace) {
        let place = JoinPlace {
            select: 1,
            own: 1 << number,
            after,
        };
        (number, place)
    }

    #[test]
    fn tables_that_come_before_each_other_have_no_order() {
        assert!(can_be_ordered(&[
            place(0, 0b10),
            place(1, 0),
            place(2, 0b11)
        ]));
        assert!(!can_be_ordered(&[
            place(0, 0b10),
            place(1, 0b100),
            place(2, 0b1)
        ]));
        assert!(!can_be_ordered(&[place(0, 0b1)]));
    }
}
