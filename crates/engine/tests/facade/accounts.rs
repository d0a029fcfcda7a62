//! Records of accounts: changed together, found again by the next start, and not mixed with other records.

use perigee_engine::catalog::AccountRecords;

use super::*;

fn records(names: &[(&str, &str)]) -> AccountRecords {
    let record =
        |(name, value): &(&str, &str)| (name.as_bytes().to_vec(), value.as_bytes().to_vec());
    names.iter().map(record).collect()
}

async fn change(engine: &Arc<Engine>, new: &AccountRecords) {
    let changed = engine.change_accounts(|_| Ok::<_, EngineError>(new.clone()));
    changed.await.unwrap();
    assert_eq!(*engine.accounts().1, *new);
}

#[test]
fn they_are_there_after_a_restart_and_a_version_tells_of_changes() {
    live(async {
        let dir = tempfile::tempdir().unwrap();
        let engine = open(dir.path(), EngineConfig::default()).await;
        assert!(engine.accounts().1.is_empty());
        engine.create_schema("test").await.unwrap();
        let first = records(&[("", "1"), ("ann", "secret"), ("bob", "x")]);
        let version = engine.accounts_version();
        change(&engine, &first).await;
        assert_ne!(engine.accounts_version(), version);
        let version = engine.accounts_version();
        change(&engine, &first).await;
        assert_eq!(engine.accounts_version(), version, "nothing has changed");
        let second = records(&[("", "1"), ("ann", "other"), ("carl", "y")]);
        change(&engine, &second).await;
        engine.shutdown().await.unwrap();
        drop(engine);
        let engine = open(dir.path(), EngineConfig::default()).await;
        assert_eq!(*engine.accounts().1, second);
        assert_eq!(engine.schemas(), ["test"]);
    });
}

#[test]
fn a_change_that_fails_changes_nothing() {
    live(async {
        let dir = tempfile::tempdir().unwrap();
        let engine = open(dir.path(), EngineConfig::default()).await;
        let mut first = records(&[("ann", "secret")]);
        first.insert(b"carl".to_vec(), vec![7; 20_000]);
        change(&engine, &first).await;
        let failed = engine.change_accounts(|_| Err(EngineError::NoSuchSchema("no".into())));
        assert!(failed.await.is_err());
        let mut long = first.clone();
        long.insert(b"bob".to_vec(), vec![7; 70_000_000]);
        let failed = engine.change_accounts(|_| Ok::<_, EngineError>(long)).await;
        assert!(
            matches!(failed, Err(EngineError::BadDefinition(_))),
            "{failed:?}"
        );
        assert_eq!(*engine.accounts().1, first);
        engine.shutdown().await.unwrap();
    });
}
