//! Accounts between which money moves: what every scan of them must say.

use std::fmt;

/// What the accounts were opened with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bank {
    /// How many accounts there are.
    pub accounts: u64,
    /// What all of them have together, always.
    pub total: i64,
    /// Transfers never overdraw an account.
    pub never_negative: bool,
}

/// What one scan of all accounts found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scan {
    /// Accounts it met.
    pub accounts: u64,
    /// Sum of their balances.
    pub total: i64,
    /// The least balance.
    pub least: i64,
}

/// What is wrong with a scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wrong {
    /// It met accounts twice or not at all.
    Accounts(Scan),
    /// It saw a transfer in part.
    Total(Scan),
    /// It saw an account overdrawn.
    Negative(Scan),
}

impl Bank {
    /// Checks one scan, of one statement or of one snapshot.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn check(&self, scan: Scan) -> Result<(), Wrong> {
        if scan.accounts != self.accounts {
            return Err(Wrong::Accounts(scan));
        }
        if scan.total != self.total {
            return Err(Wrong::Total(scan));
        }
        if self.never_negative && scan.least < 0 {
            return Err(Wrong::Negative(scan));
        }
        Ok(())
    }
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Accounts(scan) => write!(f, "a scan meets {} accounts", scan.accounts),
            Self::Total(scan) => write!(f, "a scan finds {} in all accounts", scan.total),
            Self::Negative(scan) => write!(f, "a scan finds an account with {}", scan.least),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_wrong_scan_is_found() {
        let bank = Bank {
            accounts: 3,
            total: 300,
            never_negative: true,
        };
        let scan = Scan {
            accounts: 3,
            total: 300,
            least: 0,
        };
        assert_eq!(bank.check(scan), Ok(()));
        let twice = Scan {
            accounts: 4,
            ..scan
        };
        assert_eq!(bank.check(twice), Err(Wrong::Accounts(twice)));
        let partial = Scan { total: 290, ..scan };
        assert_eq!(bank.check(partial), Err(Wrong::Total(partial)));
        let overdrawn = Scan { least: -1, ..scan };
        assert_eq!(bank.check(overdrawn), Err(Wrong::Negative(overdrawn)));
        let may = Bank {
            never_negative: false,
            ..bank
        };
        assert_eq!(may.check(overdrawn), Ok(()));
    }
}
