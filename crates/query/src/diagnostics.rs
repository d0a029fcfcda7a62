//! What evaluation says of a statement besides its values: divisions by zero, which `sql_mode` makes warnings or
//! errors.
//!
//! What a statement's divisions are is decided when it begins. The threads that compute for it know it, as they know its
//! token ([`crate::interrupt`]).

use std::cell::RefCell;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use datafusion::common::Result as DfResult;
use futures::future::BoxFuture;

use crate::error::{Result, SqlError};

thread_local! {
    static CURRENT: RefCell<Option<Arc<Diagnostics>>> = const { RefCell::new(None) };
}

/// What a division by zero is, whose value is NULL.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Division {
    /// Nothing else.
    #[default]
    Null,
    /// Warning 1365.
    Warning,
    /// Error 1365.
    Error,
}

/// What happened in a statement.
#[derive(Debug, Default)]
pub(crate) struct Diagnostics {
    division: Division,
    divisions: AtomicU64,
}

impl Diagnostics {
    /// Of a statement that begins.
    pub(crate) fn new(division: Division) -> Arc<Self> {
        Arc::new(Self {
            division,
            divisions: AtomicU64::new(0),
        })
    }

    /// Divisions by zero that are warnings.
    pub(crate) fn divisions(&self) -> u64 {
        self.divisions.load(Ordering::Relaxed)
    }
}

/// While it lives, the thread computes for a statement.
pub(crate) struct Noting {
    before: Option<Arc<Diagnostics>>,
}

impl Noting {
    /// Begins to compute for a statement.
    pub(crate) fn new(diagnostics: Option<Arc<Diagnostics>>) -> Self {
        let before = CURRENT.replace(diagnostics);
        Self { before }
    }
}

impl Drop for Noting {
    fn drop(&mut self) {
        CURRENT.set(self.before.take());
    }
}

/// A future that computes for a statement.
pub(crate) struct Noted<'a, T> {
    future: BoxFuture<'a, T>,
    diagnostics: Arc<Diagnostics>,
}

impl<'a, T> Noted<'a, T> {
    /// What a future does from now on is done for the statement.
    pub(crate) fn new(future: BoxFuture<'a, T>, diagnostics: Arc<Diagnostics>) -> Self {
        Self {
            future,
            diagnostics,
        }
    }
}

impl<T> Future for Noted<'_, T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        let _noting = Noting::new(Some(self.diagnostics.clone()));
        self.future.as_mut().poll(cx)
    }
}

/// Those of the statement that the thread computes for.
pub(crate) fn current() -> Option<Arc<Diagnostics>> {
    CURRENT.with_borrow(Clone::clone)
}

/// True if a division by zero is an error: then storage, which has no errors, does not divide.
pub(crate) fn division_is_error() -> bool {
    let is_error = |known: &Arc<Diagnostics>| known.division == Division::Error;
    CURRENT.with_borrow(|known| known.as_ref().is_some_and(is_error))
}

/// Some values were divided by zero.
///
/// # Errors
/// 1365 where that is an error.
pub(crate) fn divided_by_zero(count: u64) -> Result<()> {
    CURRENT.with_borrow(|known| match known {
        Some(known) if count > 0 => match known.division {
            Division::Null => Ok(()),
            Division::Warning => {
                known.divisions.fetch_add(count, Ordering::Relaxed);
                Ok(())
            }
            Division::Error => Err(SqlError::division_by_zero()),
        },
        _ => Ok(()),
    })
}

/// [`divided_by_zero`], for what DataFusion calls.
pub(crate) fn divided_by_zero_df(count: u64) -> DfResult<()> {
    divided_by_zero(count).map_err(SqlError::into_df)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn divisions_are_what_the_innermost_statement_says() {
        let (warning, error) = (
            Diagnostics::new(Division::Warning),
            Diagnostics::new(Division::Error),
        );
        assert_eq!(divided_by_zero(1), Ok(()));
        let outer = Noting::new(Some(warning.clone()));
        assert_eq!(divided_by_zero(2), Ok(()));
        {
            let _inner = Noting::new(Some(error));
            assert!(division_is_error());
            assert_eq!(divided_by_zero(0), Ok(()));
            assert_eq!(divided_by_zero(1), Err(SqlError::division_by_zero()));
        }
        assert_eq!(divided_by_zero(1), Ok(()));
        drop(outer);
        assert_eq!(divided_by_zero(1), Ok(()));
        assert_eq!(warning.divisions(), 3);
    }
}
