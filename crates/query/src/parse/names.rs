//! Which words are names: a reserved word is one only in backticks, or behind a period.
//!
//! sqlparser takes nearly every word for a name, so that `SELECT FROM t` would be a column FROM with
//! the alias t. This pass over its trees finds such names, where MySQL has a syntax error.

use std::collections::HashSet;
use std::ops::ControlFlow;
use std::sync::LazyLock;

use sqlparser::ast::{
    self, Expr, Ident, ObjectName, ObjectNamePart, Query, Select, SelectItem, TableConstraint,
    TableFactor, Visit, Visitor,
};

/// MySQL 8's reserved words. Those that are expressions of their own, such as
/// CURRENT_DATE, are not looked for: sqlparser does not take them for names.
const RESERVED: &str = "\
    ACCESSIBLE ADD ALL ALTER ANALYZE AND AS ASC ASENSITIVE BEFORE BETWEEN BIGINT BINARY BLOB BOTH \
    BY CALL CASCADE CASE CHANGE CHAR CHARACTER CHECK COLLATE COLUMN CONDITION CONSTRAINT CONTINUE \
    CONVERT CREATE CROSS CUBE CUME_DIST CURSOR DATABASE DATABASES DAY_HOUR DAY_MICROSECOND \
    DAY_MINUTE DAY_SECOND DEC DECIMAL DECLARE DEFAULT DELAYED DELETE DENSE_RANK DESC DESCRIBE \
    DETERMINISTIC DISTINCT DISTINCTROW DIV DOUBLE DROP DUAL EACH ELSE ELSEIF EMPTY ENCLOSED \
    ESCAPED EXCEPT EXISTS EXIT EXPLAIN FALSE FETCH FIRST_VALUE FLOAT FLOAT4 FLOAT8 FOR FORCE \
    FOREIGN FROM FULLTEXT FUNCTION GENERATED GET GRANT GROUP GROUPING GROUPS HAVING HIGH_PRIORITY \
    HOUR_MICROSECOND HOUR_MINUTE HOUR_SECOND IF IGNORE IN INDEX INFILE INNER INOUT INSENSITIVE \
    INSERT INT INT1 INT2 INT3 INT4 INT8 INTEGER INTERSECT INTERVAL INTO IO_AFTER_GTIDS \
    IO_BEFORE_GTIDS IS ITERATE JOIN JSON_TABLE KEY KEYS KILL LAG LAST_VALUE LATERAL LEAD LEADING \
    LEAVE LEFT LIKE LIMIT LINEAR LINES LOAD LOCK LONG LONGBLOB LONGTEXT LOOP LOW_PRIORITY \
    MASTER_BIND MASTER_SSL_VERIFY_SERVER_CERT MATCH MAXVALUE MEDIUMBLOB MEDIUMINT MEDIUMTEXT \
    MIDDLEINT MINUTE_MICROSECOND MINUTE_SECOND MOD MODIFIES NATURAL NOT NO_WRITE_TO_BINLOG \
    NTH_VALUE NTILE NULL NUMERIC OF ON OPTIMIZE OPTIMIZER_COSTS OPTION OPTIONALLY OR ORDER OUT \
    OUTER OUTFILE OVER PARTITION PERCENT_RANK PRECISION PRIMARY PROCEDURE PURGE RANGE RANK READ \
    READS READ_WRITE REAL RECURSIVE REFERENCES REGEXP RELEASE RENAME REPEAT REPLACE REQUIRE \
    RESIGNAL RESTRICT RETURN REVOKE RIGHT RLIKE ROW ROWS ROW_NUMBER SCHEMA SCHEMAS \
    SECOND_MICROSECOND SELECT SENSITIVE SEPARATOR SET SHOW SIGNAL SMALLINT SPATIAL SPECIFIC SQL \
    SQLEXCEPTION SQLSTATE SQLWARNING SQL_BIG_RESULT SQL_CALC_FOUND_ROWS SQL_SMALL_RESULT SSL \
    STARTING STORED STRAIGHT_JOIN SYSTEM TABLE TERMINATED THEN TINYBLOB TINYINT TINYTEXT TO \
    TRAILING TRIGGER TRUE UNDO UNION UNIQUE UNLOCK UNSIGNED UPDATE USAGE USE USING VALUES \
    VARBINARY VARCHAR VARCHARACTER VARYING VIRTUAL WHEN WHERE WHILE WINDOW WITH WRITE XOR \
    YEAR_MONTH ZEROFILL";

/// Length of the longest of them.
const LONGEST: usize = "MASTER_SSL_VERIFY_SERVER_CERT".len();

/// True for a word that is no name.
pub(super) fn is_reserved(word: &str) -> bool {
    static WORDS: LazyLock<HashSet<&str>> =
        LazyLock::new(|| RESERVED.split_ascii_whitespace().collect());
    let is_short = word.len() <= LONGEST && word.is_ascii();
    is_short && WORDS.contains(word.to_ascii_uppercase().as_str())
}

/// A reserved word or a string that a statement has in the place of a name.
pub(super) fn misplaced(statement: &ast::Statement) -> Option<Ident> {
    let mut names = Names {
        default_is_value: !matches!(statement, ast::Statement::Query(_)),
    };
    match statement.visit(&mut names) {
        ControlFlow::Break(ident) => Some(ident),
        ControlFlow::Continue(()) => None,
    }
}

/// The same for a part of a statement that changes rows.
pub(super) fn misplaced_in(part: &impl Visit) -> Option<Ident> {
    let mut names = Names {
        default_is_value: true,
    };
    match part.visit(&mut names) {
        ControlFlow::Break(ident) => Some(ident),
        ControlFlow::Continue(()) => None,
    }
}

struct Names {
    /// DEFAULT stands for a column's or an option's default.
    default_is_value: bool,
}

type Flow = ControlFlow<Ident>;

/// A name that is declared or that is the first part of a reference.
fn name(ident: &Ident) -> Flow {
    let wrong = match ident.quote_style {
        None => is_reserved(&ident.value),
        Some(quote) => quote != '`',
    };
    if wrong {
        ControlFlow::Break(ident.clone())
    } else {
        ControlFlow::Continue(())
    }
}

fn object_name(names: &ObjectName) -> Flow {
    match names.0.first() {
        // `SELECT … FROM dual` reads no table.
        Some(ObjectNamePart::Identifier(ident))
            if names.0.len() > 1 || !ident.value.eq_ignore_ascii_case("dual") =>
        {
            name(ident)
        }
        _ => ControlFlow::Continue(()),
    }
}

impl Visitor for Names {
    type Break = Ident;

    fn pre_visit_statement(&mut self, statement: &ast::Statement) -> Flow {
        match statement {
            ast::Statement::CreateTable(table) => {
                for column in &table.columns {
                    name(&column.name)?;
                }
                table.constraints.iter().try_for_each(constraint)
            }
            ast::Statement::Insert(insert) => insert.columns.iter().try_for_each(object_name),
            ast::Statement::Drop { names, .. } => names.iter().try_for_each(object_name),
            _ => ControlFlow::Continue(()),
        }
    }

    fn pre_visit_query(&mut self, query: &Query) -> Flow {
        let mut ctes = query.with.iter().flat_map(|with| &with.cte_tables);
        ctes.try_for_each(|cte| name(&cte.alias.name))
    }

    fn pre_visit_select(&mut self, select: &Select) -> Flow {
        select.projection.iter().try_for_each(|item| match item {
            // Here strings are names, too.
            SelectItem::ExprWithAlias { alias, .. } if alias.quote_style.is_none() => name(alias),
            _ => ControlFlow::Continue(()),
        })
    }

    fn pre_visit_relation(&mut self, relation: &ObjectName) -> Flow {
        object_name(relation)
    }

    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> Flow {
        let (TableFactor::Table { alias, .. }
        | TableFactor::Derived { alias, .. }
        | TableFactor::NestedJoin { alias, .. }) = factor
        else {
            return ControlFlow::Continue(());
        };
        alias.iter().try_for_each(|alias| name(&alias.name))
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> Flow {
        match expr {
            Expr::Identifier(ident) => {
                let is_default =
                    self.default_is_value && ident.value.eq_ignore_ascii_case("default");
                if is_default || ident.value.starts_with('@') {
                    return ControlFlow::Continue(());
                }
                name(ident)
            }
            Expr::CompoundIdentifier(idents) => match idents.first() {
                Some(ident) if !ident.value.starts_with('@') => name(ident),
                _ => ControlFlow::Continue(()),
            },
            _ => ControlFlow::Continue(()),
        }
    }
}

fn constraint(constraint: &TableConstraint) -> Flow {
    let key = match constraint {
        TableConstraint::Index(index) => index.name.as_ref(),
        TableConstraint::Unique(unique) => unique.index_name.as_ref(),
        _ => None,
    };
    key.map_or(ControlFlow::Continue(()), name)
}
