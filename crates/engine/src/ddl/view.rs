//! Making and dropping views, whose names are in the same space as those of tables. A change of one is a record of the
//! catalog, so it needs no lock: statements that looked at the view before go on with what they saw.

use std::sync::Arc;

use super::change::Change;
use super::lock::TableName;
use crate::EngineError;
use crate::catalog::ViewDef;
use crate::engine::Engine;

impl Engine {
    /// A view.
    #[must_use]
    pub fn view(&self, schema: &str, name: &str) -> Option<Arc<ViewDef>> {
        self.catalog.view(schema, name)
    }

    /// All views of a schema, by name.
    #[must_use]
    pub fn views(&self, schema: &str) -> Vec<Arc<ViewDef>> {
        self.catalog.views_of(schema)
    }

    /// Makes a view, or puts it in the place of the one that `make` is given.
    ///
    /// # Errors
    /// [`EngineError::NoSuchSchema`]; [`EngineError::TableExists`] if a table has the name;
    /// [`EngineError::BadDefinition`] if it is too long; those of `make`.
    pub async fn put_view<E: From<EngineError>>(
        self: &Arc<Self>,
        name: &TableName,
        make: impl FnOnce(Option<&ViewDef>) -> Result<ViewDef, E>,
    ) -> Result<(), E> {
        let turn = self.turn().await?;
        let old = self.view(&name.schema, &name.name);
        if old.is_none() {
            self.check_free(name)?;
        }
        let def = make(old.as_deref())?;
        if old.is_some_and(|old| *old == def) {
            return Ok(());
        }
        let mut change = Change::default();
        change.put_view(def);
        Ok(self.make_change(turn, Vec::new(), change).await?)
    }

    /// Drops those of the views that there are; `check` is told which of the names are none of views, and may refuse.
    ///
    /// # Errors
    /// Those of `check`, or what storage says.
    pub async fn drop_views<E: From<EngineError>>(
        self: &Arc<Self>,
        names: &[TableName],
        check: impl FnOnce(&[&TableName]) -> Result<(), E>,
    ) -> Result<(), E> {
        let turn = self.turn().await?;
        let is_view = |name: &&TableName| self.view(&name.schema, &name.name).is_some();
        let (views, missing): (Vec<_>, Vec<_>) = names.iter().partition(is_view);
        check(&missing)?;
        if views.is_empty() {
            return Ok(());
        }
        let mut change = Change::default();
        views.into_iter().for_each(|name| change.remove_view(name));
        Ok(self.make_change(turn, Vec::new(), change).await?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn open(dir: &std::path::Path) -> Arc<Engine> {
        let log = perigee_log_store::LogStoreService::open(dir.join("log"), Default::default());
        let pages = perigee_page_store::PageStoreService::open(dir.join("p"), Default::default());
        let config = perigee_sal::SalConfig::new(perigee_types::DbId(1));
        let pages: Vec<Arc<dyn perigee_page_api::PageStore>> =
            vec![Arc::new(pages.expect("a page store"))];
        let log = Arc::new(log.expect("a log store"));
        let sal = perigee_sal::Sal::open(config, log, pages).await;
        let engine = Engine::open(sal.expect("storage"), crate::EngineConfig::default());
        engine.await.expect("an engine")
    }

    fn name(schema: &str, name: &str) -> TableName {
        TableName {
            schema: schema.into(),
            name: name.into(),
        }
    }

    async fn put(engine: &Arc<Engine>, at: &TableName, query: &str) -> Result<(), EngineError> {
        let view = ViewDef {
            schema: at.schema.clone(),
            name: at.name.clone(),
            columns: vec!["a".into()],
            named: false,
            query: query.into(),
            collation: perigee_value::Collation::UTF8MB4_BIN,
            algorithm: Default::default(),
            definer: ("root".into(), "%".into()),
            invoker: false,
            check: Default::default(),
        };
        engine.put_view(at, |_| Ok(view)).await
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn views_outlive_a_restart_and_go_with_their_schema() {
        let dir = tempfile::tempdir().expect("a directory");
        let engine = open(dir.path()).await;
        for schema in ["a", "ab"] {
            engine.create_schema(schema).await.expect("it is new");
            for view in ["v", "w"] {
                let at = name(schema, view);
                put(&engine, &at, "select 1").await.expect("it is new");
                put(&engine, &at, "select 2").await.expect("it is replaced");
            }
        }
        let missing = put(&engine, &name("c", "v"), "select 1").await;
        assert!(matches!(missing, Err(EngineError::NoSuchSchema(_))));
        let names = [name("a", "w"), name("a", "x")];
        let refuse = |missing: &[&TableName]| match missing {
            [one] if **one == names[1] => Err(EngineError::NoSuchTable(one.to_string())),
            _ => Ok(()),
        };
        assert!(engine.drop_views(&names, refuse).await.is_err());
        let accept = |_: &[&TableName]| Ok::<_, EngineError>(());
        engine
            .drop_views(&names, accept)
            .await
            .expect("one is there");
        engine.shutdown().await.expect("storage");
        drop(engine);
        let engine = open(dir.path()).await;
        let shown = |schema: &str| -> Vec<_> {
            let views = engine.views(schema).into_iter();
            views
                .map(|view| (view.name.clone(), view.query.clone()))
                .collect()
        };
        assert_eq!(shown("a"), [("v".into(), "select 2".into())]);
        assert_eq!(shown("ab").len(), 2);
        let locker = engine.table_locker(std::time::Duration::ZERO, &Default::default());
        let dropped = engine.drop_schema("ab", true, &locker).await;
        assert_eq!(dropped.expect("it is there"), 2);
        engine.create_schema("ab").await.expect("it was dropped");
        assert!(shown("ab").is_empty() && engine.view("a", "v").is_some());
        engine.shutdown().await.expect("storage");
    }
}
