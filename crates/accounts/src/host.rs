//! Host patterns: which clients an account's host fits, and which of two is the more specific. Names are not looked up:
//! a client is its address, and one on loopback is `localhost`, too.

use std::cmp::Reverse;
use std::net::IpAddr;

/// Longest host of an account, as in MySQL.
const MAX_HOST: usize = 255;

/// True for a host that an account may have: not too long, and printable.
#[must_use]
pub fn is_valid_host(host: &str) -> bool {
    host.len() <= MAX_HOST && !host.chars().any(|c| c.is_control() || c == '@')
}

/// True if a client at an address fits a host pattern: `%` stands for any characters, `_` for one; an address may be
/// followed by `/` and a mask or the length of one.
#[must_use]
pub fn matches_host(pattern: &str, client: IpAddr) -> bool {
    let client = client.to_canonical();
    if let Some(network) = network(pattern) {
        return network.contains(client);
    }
    if client.is_loopback() && matches(pattern.as_bytes(), b"localhost") {
        return true;
    }
    if pattern.parse() == Ok(client) {
        return true;
    }
    matches(pattern.as_bytes(), client.to_string().as_bytes())
}

/// The more specific of two patterns is less: names and addresses, then networks by the length of their masks, then
/// patterns by where their first wildcard stands.
pub(crate) fn specificity(pattern: &str) -> (u8, Reverse<usize>) {
    match (network(pattern), pattern.find(['%', '_'])) {
        (Some(network), _) => (1, Reverse(network.bits as usize)),
        (None, Some(first)) => (2, Reverse(first)),
        (None, None) => (0, Reverse(0)),
    }
}

/// A network that a pattern names.
struct Network {
    address: IpAddr,
    bits: u32,
}

impl Network {
    fn contains(&self, client: IpAddr) -> bool {
        let same = |a: u128, b: u128, width: u32| {
            let rest = width - self.bits.min(width);
            self.bits == 0 || a >> rest == b >> rest
        };
        match (self.address, client) {
            (IpAddr::V4(a), IpAddr::V4(b)) => same(a.to_bits().into(), b.to_bits().into(), 32),
            (IpAddr::V6(a), IpAddr::V6(b)) => same(a.to_bits(), b.to_bits(), 128),
            _ => false,
        }
    }
}

/// `address/mask` or `address/bits`.
fn network(pattern: &str) -> Option<Network> {
    let (address, mask) = pattern.split_once('/')?;
    let address: IpAddr = address.parse().ok()?;
    let width = if address.is_ipv4() { 32 } else { 128 };
    let bits = match mask.parse::<IpAddr>() {
        Ok(IpAddr::V4(mask)) if address.is_ipv4() => {
            let bits = mask.to_bits().leading_ones();
            (mask.to_bits().count_ones() == bits).then_some(bits)?
        }
        Ok(_) => return None,
        Err(_) => mask.parse::<u32>().ok().filter(|bits| *bits <= width)?,
    };
    Some(Network { address, bits })
}

/// True if a text is what a pattern of `%`, `_` and other bytes stands for; case does not count. Takes time of at most
/// the product of the lengths.
pub(crate) fn matches(pattern: &[u8], text: &[u8]) -> bool {
    let (mut p, mut t) = (0, 0);
    // Behind the last `%`, and the text that it has not swallowed.
    let mut retry: Option<(usize, usize)> = None;
    while t < text.len() {
        match pattern.get(p) {
            Some(b'%') => {
                p += 1;
                retry = Some((p, t));
            }
            Some(b'\\')
                if pattern
                    .get(p + 1)
                    .is_some_and(|c| c.eq_ignore_ascii_case(&text[t])) =>
            {
                p += 2;
                t += 1;
            }
            Some(c) if *c != b'\\' && (*c == b'_' || c.eq_ignore_ascii_case(&text[t])) => {
                p += 1;
                t += 1;
            }
            _ => match retry {
                Some((behind, swallowed)) => {
                    (p, t) = (behind, swallowed + 1);
                    retry = Some((behind, swallowed + 1));
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|c| *c == b'%')
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use proptest::prelude::*;

    fn fits(pattern: &str, client: &str) -> bool {
        matches_host(pattern, client.parse().unwrap())
    }

    #[test]
    fn loopback_is_localhost_and_its_address() {
        for client in ["127.0.0.1", "127.1.2.3", "::1", "::ffff:127.0.0.1"] {
            assert!(
                fits("localhost", client) && fits("LocalHost", client),
                "{client}"
            );
            assert!(fits("%", client) && fits("local%", client));
        }
        assert!(fits("127.0.0.1", "127.0.0.1") && fits("::1", "::1"));
        assert!(fits("0:0:0:0:0:0:0:1", "::1"), "another way to write it");
        for client in ["10.0.0.1", "fe80::1"] {
            assert!(!fits("localhost", client) && fits("%", client), "{client}");
        }
        assert!(!fits("", "127.0.0.1"));
    }

    #[test]
    fn patterns_and_networks() {
        for (pattern, client, expected) in [
            ("192.168.1.%", "192.168.1.77", true),
            ("192.168.1.%", "192.168.11.7", false),
            ("192.168.1._", "192.168.1.7", true),
            ("192.168.1._", "192.168.1.77", false),
            ("10.0.0.0/255.0.0.0", "10.200.3.4", true),
            ("10.0.0.0/255.0.0.0", "11.0.0.1", false),
            ("10.0.0.0/8", "10.1.1.1", true),
            ("0.0.0.0/0", "8.8.8.8", true),
            ("10.0.0.0/33", "10.0.0.1", false),
            ("10.0.0.0/255.0.255.0", "10.0.0.1", false),
            ("fd00::/8", "fd12::9", true),
            ("fd00::/8", "10.0.0.1", false),
        ] {
            assert_eq!(fits(pattern, client), expected, "{pattern} {client}");
        }
    }

    #[test]
    fn the_more_specific_comes_first() {
        let mut hosts = [
            "%",
            "10.%",
            "10.0.0.0/8",
            "10.0.0.1",
            "10.0.%",
            "10.0.0.0/24",
            "localhost",
        ];
        hosts.sort_by_key(|host| specificity(host));
        let expected = [
            "10.0.0.1",
            "localhost",
            "10.0.0.0/24",
            "10.0.0.0/8",
            "10.0.%",
            "10.%",
            "%",
        ];
        assert_eq!(hosts, expected);
    }

    /// As it is defined, in exponential time.
    fn plainly(pattern: &[u8], text: &[u8]) -> bool {
        match (pattern, text) {
            ([], []) => true,
            ([b'%', rest @ ..], _) => (0..=text.len()).any(|n| plainly(rest, &text[n..])),
            ([b'_', rest @ ..], [_, text @ ..]) => plainly(rest, text),
            ([c, rest @ ..], [d, text @ ..]) if c == d => plainly(rest, text),
            _ => false,
        }
    }

    proptest! {
        #[test]
        fn wildcards_stand_for_what_they_are_defined_to(pattern in "[ab%_]{0,8}", text in "[ab]{0,8}") {
            let found = matches(pattern.as_bytes(), text.as_bytes());
            prop_assert_eq!(found, plainly(pattern.as_bytes(), text.as_bytes()));
        }

        #[test]
        fn any_pattern_can_be_asked(pattern: String) {
            let _ = matches_host(&pattern, IpAddr::from([127, 0, 0, 1]));
            let _ = specificity(&pattern);
        }
    }
}
