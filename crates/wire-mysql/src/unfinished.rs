//! Logins that have not finished: their number is bounded by itself, not by `max_connections`, so
//! that clients who come and say nothing take no place of those who log in.
//!
//! When there are too many, the address with most of them loses the one that has taken longest. So
//! an address that opens connections without end crowds out its own, and nobody else's.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;

/// The unfinished logins of each address, in the order in which they came.
#[derive(Debug)]
pub(crate) struct Unfinished<T> {
    by_address: HashMap<IpAddr, BTreeMap<u64, T>>,
    len: usize,
    next: u64,
}

/// A login's place among them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    address: IpAddr,
    number: u64,
}

impl<T> Default for Unfinished<T> {
    fn default() -> Self {
        Self {
            by_address: HashMap::new(),
            len: 0,
            next: 0,
        }
    }
}

impl<T> Unfinished<T> {
    /// Adds a login; returns its place, and the login that has to go if there are more than `most`.
    pub(crate) fn begin(&mut self, address: IpAddr, login: T, most: usize) -> (Place, Option<T>) {
        let crowded_out = if self.len >= most.max(1) {
            self.crowd_out()
        } else {
            None
        };
        let number = self.next;
        self.next += 1;
        self.len += 1;
        self.by_address
            .entry(address)
            .or_default()
            .insert(number, login);
        (Place { address, number }, crowded_out)
    }

    /// A login has finished, or its client has gone. Nothing happens if it was crowded out.
    pub(crate) fn end(&mut self, place: Place) {
        if let Some(logins) = self.by_address.get_mut(&place.address)
            && logins.remove(&place.number).is_some()
        {
            self.len -= 1;
            if logins.is_empty() {
                self.by_address.remove(&place.address);
            }
        }
    }

    /// Takes out the oldest login of the address that has most; of several such addresses, the one
    /// with the oldest login.
    fn crowd_out(&mut self) -> Option<T> {
        let oldest = |logins: &BTreeMap<u64, T>| logins.keys().next().copied();
        let (address, logins) = self.by_address.iter().max_by(|(_, a), (_, b)| {
            let by_number = a.len().cmp(&b.len());
            by_number.then_with(|| oldest(b).cmp(&oldest(a)))
        })?;
        let place = Place {
            address: *address,
            number: oldest(logins)?,
        };
        let login = self
            .by_address
            .get_mut(&place.address)
            .and_then(|logins| logins.remove(&place.number));
        self.len -= usize::from(login.is_some());
        if self.by_address[&place.address].is_empty() {
            self.by_address.remove(&place.address);
        }
        login
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOST: usize = 4;

    fn address(last: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, last])
    }

    #[test]
    fn an_address_crowds_out_its_own_logins() {
        let mut logins = Unfinished::default();
        let (honest, _) = logins.begin(address(1), "honest", MOST);
        let flood = ["a", "b", "c", "d", "e"];
        let gone: Vec<_> = flood
            .iter()
            .filter_map(|login| logins.begin(address(2), *login, MOST).1)
            .collect();
        assert_eq!(gone, ["a", "b"], "the oldest of the many");
        logins.end(honest);
        assert_eq!(logins.begin(address(3), "third", MOST).1, None);
        assert_eq!(logins.begin(address(3), "more", MOST).1, Some("c"));
    }

    #[test]
    fn among_equals_the_oldest_goes() {
        let mut logins = Unfinished::default();
        let mut places = Vec::new();
        for n in 0..6 {
            let (place, gone) = logins.begin(address(n), n, MOST);
            assert_eq!(gone, n.checked_sub(MOST as u8));
            places.push(place);
        }
        // Those that were crowded out end later, and are not counted twice.
        places.into_iter().for_each(|place| logins.end(place));
        assert_eq!(logins.len, 0);
        assert!(logins.by_address.is_empty());
    }
}
