//! Roles in sessions: which are active, what they allow, and where the rights of a definer count.

use crate::{Served, number_of};

const SETUP: &str = "
CREATE DATABASE d; CREATE TABLE d.t (a INT PRIMARY KEY, b INT); INSERT INTO d.t VALUES (1, 10), (2, 20);
CREATE ROLE reader, writer, boss;
GRANT SELECT ON d.* TO reader; GRANT INSERT, UPDATE, DELETE ON d.* TO writer; GRANT reader, writer TO boss;
CREATE USER ann IDENTIFIED BY 'x', bob IDENTIFIED BY 'x'; GRANT reader, boss TO ann;
";

fn served() -> Served {
    let served = Served::start(&[]);
    served.root(SETUP);
    served
}

impl Served {
    fn as_ann(&self, sql: &str) -> String {
        match self.try_as("ann", "x", sql) {
            Ok(text) => text,
            Err(error) => number_of(&error),
        }
    }
}

#[test]
fn a_role_allows_what_it_may_as_long_as_it_is_active() {
    let served = served();
    assert_eq!(served.as_ann("SELECT CURRENT_ROLE()"), "NONE\n");
    let by_key = "SELECT b FROM d.t WHERE a = 1";
    assert_eq!(served.as_ann(by_key), "1142 (42000)");
    assert_eq!(served.as_ann(&format!("SET ROLE reader; {by_key}")), "10\n");
    let insert = "INSERT INTO d.t VALUES (3, 30)";
    let sql = format!("SET ROLE reader; {insert}");
    assert_eq!(served.as_ann(&sql), "1142 (42000)");
    // What a role has by its roles.
    let sql = format!("SET ROLE boss; {insert}; SELECT COUNT(*), CURRENT_ROLE() FROM d.t");
    assert_eq!(served.as_ann(&sql), "3\t`boss`@`%`\n");
    let sql = format!("SET ROLE boss; SET ROLE NONE; {by_key}");
    assert_eq!(served.as_ann(&sql), "1142 (42000)");
    assert_eq!(served.as_ann("SET ROLE writer"), "3530 (HY000)");
    assert_eq!(served.as_ann("USE d"), "1044 (42000)");
    assert_eq!(served.as_ann("SET ROLE ALL; USE d; SHOW TABLES"), "t\n");
    // A transaction goes on.
    let sql =
        "SET ROLE ALL; BEGIN; DELETE FROM d.t; SET ROLE reader; ROLLBACK; SELECT COUNT(*) FROM d.t";
    assert_eq!(served.as_ann(sql), "3\n");
}

#[test]
fn roles_are_active_after_a_login() {
    let mut served = served();
    served.root("SET DEFAULT ROLE reader TO ann");
    served.restart();
    let count = "SELECT COUNT(*), CURRENT_ROLE() FROM d.t";
    assert_eq!(served.as_ann(count), "2\t`reader`@`%`\n");
    served.root("SET GLOBAL activate_all_roles_on_login = ON");
    assert_eq!(served.as_ann(count), "2\t`boss`@`%`,`reader`@`%`\n");
    let default = format!("SET ROLE DEFAULT; {count}");
    assert_eq!(served.as_ann(&default), "2\t`reader`@`%`\n");
    served.root("SET GLOBAL activate_all_roles_on_login = OFF; SET DEFAULT ROLE NONE TO ann");
    assert_eq!(served.as_ann(count), "1142 (42000)");
    // Everybody's roles have to be made active, too.
    served.root("SET GLOBAL mandatory_roles = 'writer'");
    let sql = "SET ROLE writer; INSERT INTO d.t VALUES (9, 9); SELECT CURRENT_ROLE()";
    assert_eq!(served.try_as("bob", "x", sql), Ok("`writer`@`%`\n".into()));
    served.root("REVOKE reader, boss FROM ann");
    assert_eq!(served.as_ann("SET ROLE reader"), "3530 (HY000)");
    // Nobody logs in as a role.
    assert!(served.try_as("reader", "", "SELECT 1").is_err());
}

#[test]
fn who_may_grant_roles() {
    let served = served();
    for sql in [
        "GRANT reader TO bob",
        "REVOKE reader FROM ann",
        "CREATE ROLE r",
        "DROP ROLE reader",
        "SET DEFAULT ROLE NONE TO bob",
        "SET GLOBAL mandatory_roles = 'reader'",
    ] {
        assert_eq!(served.as_ann(sql), "1227 (42000)", "{sql}");
    }
    assert_eq!(served.as_ann("SET DEFAULT ROLE reader TO ann"), "");
    assert_eq!(served.as_ann("SELECT CURRENT_ROLE()"), "`reader`@`%`\n");
    served.root("GRANT reader TO ann WITH ADMIN OPTION");
    assert_eq!(served.as_ann("GRANT reader TO bob"), "");
    assert_eq!(served.as_ann("GRANT reader, writer TO bob"), "1227 (42000)");
    served.root("GRANT CREATE ROLE ON *.* TO ann");
    assert_eq!(served.as_ann("CREATE ROLE r"), "");
    assert_eq!(served.as_ann("DROP ROLE r"), "1227 (42000)");
    served.root("GRANT ROLE_ADMIN, DROP ROLE ON *.* TO ann");
    assert_eq!(served.as_ann("GRANT r TO bob; DROP ROLE r"), "");
    let grants = served.root("SHOW GRANTS FOR bob");
    assert_eq!(
        grants,
        "GRANT USAGE ON *.* TO `bob`@`%`\nGRANT `reader`@`%` TO `bob`@`%`\n"
    );
}

#[test]
fn roles_count_where_the_rights_of_a_definer_count() {
    let served = served();
    served.root(
        "CREATE DATABASE v; GRANT CREATE VIEW, CREATE ROUTINE ON v.* TO ann; \
         GRANT SELECT, EXECUTE ON v.* TO bob",
    );
    let made = "SET ROLE reader; CREATE VIEW v.w AS SELECT b FROM d.t; \
                CREATE PROCEDURE v.p() SELECT COUNT(*), CURRENT_ROLE() FROM d.t";
    assert_eq!(served.as_ann(made), "");
    let bob = |sql: &str| match served.try_as("bob", "x", sql) {
        Ok(text) => text,
        Err(error) => number_of(&error),
    };
    // Only those that are active after a login count.
    assert_eq!(bob("SELECT SUM(b) FROM v.w"), "1356 (HY000)");
    assert_eq!(bob("CALL v.p()"), "1142 (42000)");
    served.root("SET DEFAULT ROLE reader TO ann");
    assert_eq!(bob("SELECT SUM(b) FROM v.w"), "30\n");
    assert_eq!(
        bob("CALL v.p(); SELECT CURRENT_ROLE()"),
        "2\t`reader`@`%`\nNONE\n"
    );
    served.root("DROP ROLE reader");
    assert_eq!(bob("SELECT SUM(b) FROM v.w"), "1356 (HY000)");
    assert_eq!(bob("CALL v.p()"), "1142 (42000)");
}

#[test]
fn what_is_granted_to_a_role_holds_in_open_sessions() {
    let served = served();
    served.root("GRANT writer TO ann; GRANT SUPER ON *.* TO ann");
    let revoked = "SET ROLE writer; REVOKE writer FROM ann; SELECT CURRENT_ROLE(); DELETE FROM d.t";
    let error = served.try_as("ann", "x", revoked).unwrap_err();
    assert_eq!(number_of(&error), "1142 (42000)");
    let granted = "SET ROLE reader; GRANT writer TO reader; DELETE FROM d.t WHERE a = 1; \
                   SELECT COUNT(*) FROM d.t";
    assert_eq!(served.as_ann(granted), "1\n");
}
