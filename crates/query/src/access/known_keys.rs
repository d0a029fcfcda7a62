//! Which keys the few rows of a small table have for which its conditions are true (`docs/access-paths.md`): the table may be joined
//! by them, and one of them may be a frequent value on the other side.

use perigee_engine::scan::KeySpan;
use perigee_engine::{FewValuesOf, SampleHow, SampleOf};
use perigee_value::{Datum, key};

use super::estimate::conjunction_factor;
use super::exec::PageScanExec;
use super::key_values::{KeyColumn, Values};

/// Tables of more leaf pages are not looked through.
const MOST_PAGES: f64 = 32.0;

/// More keys are not looked for: together they are as frequent as any others.
const MOST_KEYS: usize = 64;

/// The accesses of a plan must be expected to cost so many microseconds: with less no order of joins is bad.
pub(super) const LEAST_COST: f64 = 2000.0;

/// Keys that an access's rows have.
#[derive(Clone, Debug)]
pub(super) struct KnownKeys {
    /// The column of the table, each value of which is in one row.
    pub column: u16,
    pub values: Values,
    /// How many there are.
    pub count: usize,
}

/// The keys that an access asks for.
#[derive(Clone, Debug)]
pub(super) struct KeyWish {
    of: FewValuesOf,
    key: KeyColumn,
    column: u16,
    pages: usize,
}

impl KeyWish {
    /// The keys that it would help to know, if they are few and not plain from the conditions.
    pub fn of(scan: &PageScanExec) -> Option<Self> {
        let (settings, stats) = (&scan.context.settings, &scan.stats);
        if scan.filters.is_empty() || settings.sample_pages == 0 || stats.columns.is_empty() {
            return None;
        }
        let most_pages = MOST_PAGES.min(settings.sample_pages as f64);
        let is_small = scan.cost_model().leaf_pages(0) <= most_pages;
        let expected = || conjunction_factor(&scan.filters, stats) * stats.rows as f64;
        if !is_small || expected() > MOST_KEYS as f64 {
            return None;
        }
        let (key, column) = key_of(scan)?;
        if let Some(Values::Points(_)) = key.of_all(&scan.filters) {
            return None;
        }
        Some(Self {
            of: FewValuesOf {
                place: scan.table.clustered().position(column)?,
                rows: SampleOf {
                    table: scan.table.clone(),
                    index: 0,
                    span: KeySpan::all(),
                    predicate: scan.program_of(&scan.filters)?,
                },
                most: MOST_KEYS,
            },
            key,
            column,
            pages: most_pages as usize,
        })
    }

    /// True if nobody has looked for them since the statistics were gathered.
    pub fn is_open(&self) -> bool {
        self.of.known().is_none()
    }

    /// The keys, if they were found. That there are none is not believed: rows may have come since.
    pub fn known(&self) -> Option<KnownKeys> {
        let found = self.of.known()??;
        let values: Vec<_> = found
            .iter()
            .map(|value| self.encoded(value))
            .collect::<Option<_>>()?;
        (!values.is_empty()).then(|| KnownKeys {
            column: self.column,
            count: values.len(),
            values: Values::points(values),
        })
    }

    fn encoded(&self, value: &Datum) -> Option<Vec<u8>> {
        let mut encoded = Vec::new();
        let KeyColumn { ty, nullable, .. } = self.key;
        key::encode_part(ty, nullable, value.as_ref(), &mut encoded).ok()?;
        Some(encoded)
    }

    /// Looks for the keys; true if they are known now.
    ///
    /// # Errors
    /// If the statement was stopped.
    pub async fn look(&self, scan: &PageScanExec) -> Result<bool, perigee_engine::EngineError> {
        let context = &scan.context;
        let how = SampleHow {
            pages: self.pages,
            ndp: false,
            time: context.settings.sample_time,
            cancel: context.cancel.clone(),
        };
        context.engine.few_values(&self.of, &how).await
    }
}

/// A column that an access delivers and that is a key by itself.
fn key_of(scan: &PageScanExec) -> Option<(KeyColumn, u16)> {
    let unique = scan.table.indexes.iter().filter(|index| index.unique);
    let mut columns = unique.filter_map(|index| match index.layout.key[..index.key_columns] {
        [place] => Some(index.columns[usize::from(place)]),
        _ => None,
    });
    let column = columns.find(|column| scan.projection.contains(&usize::from(*column)))?;
    let def = scan.table.def.columns.get(usize::from(column))?;
    let key = KeyColumn {
        number: usize::from(column),
        ty: def.ty,
        nullable: false,
        prefix: None,
    };
    (!def.nullable).then_some((key, column))
}
