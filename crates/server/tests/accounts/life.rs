//! The life of accounts: made, used, locked, expired, renamed, dropped, and found again after the server was killed.

use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::{Served, answer, number_of};

fn refused(served: &Served, user: &str, password: &str) -> String {
    served.try_as(user, password, "SELECT 1").unwrap_err()
}

#[test]
fn an_account_outlives_a_kill_as_soon_as_it_is_made() {
    let mut served = Served::start(&[]);
    for round in 0..3 {
        served.root(&format!(
            "CREATE USER 'ann{round}'@'%' IDENTIFIED BY 'secret{round}'"
        ));
        served.restart();
        for made in 0..=round {
            let who = served.try_as(
                &format!("ann{made}"),
                &format!("secret{made}"),
                "SELECT CURRENT_USER()",
            );
            assert_eq!(who, Ok(format!("ann{made}@%\n")));
        }
    }
    served.root(
        "DROP USER ann1; ALTER USER ann2 IDENTIFIED BY 'other'; GRANT PROCESS ON *.* TO ann2",
    );
    served.restart();
    assert!(refused(&served, "ann1", "secret1").contains("1045"));
    assert!(refused(&served, "ann2", "secret2").contains("1045"));
    let grants = served.try_as("ann2", "other", "SHOW GRANTS").unwrap();
    assert_eq!(grants, "GRANT PROCESS ON *.* TO `ann2`@`%`\n");
}

#[test]
fn passwords_are_checked_by_each_plugin() {
    let served = Served::start(&[]);
    served.root(
        "CREATE USER sha IDENTIFIED WITH caching_sha2_password BY 'secret', \
         native IDENTIFIED WITH mysql_native_password BY 'secret', \
         hashed IDENTIFIED WITH mysql_native_password AS '*14E65567ABDB5135D0CFD9A70B3032C179A49EE7', \
         plain IDENTIFIED BY 'secret', open",
    );
    for user in ["sha", "native", "hashed", "plain"] {
        let who = served.try_as(user, "secret", "SELECT CURRENT_USER()");
        assert_eq!(who, Ok(format!("{user}@%\n")), "{user}");
        for (wrong, using) in [("Secret", "YES"), ("", "NO")] {
            let error = refused(&served, user, wrong);
            let expected =
                format!("Access denied for user '{user}'@'127.0.0.1' (using password: {using})");
            assert!(error.contains(&expected), "{error}");
            assert_eq!(number_of(&error), "1045 (28000)");
        }
    }
    assert_eq!(served.try_as("open", "", "SELECT 1"), Ok("1\n".into()));
    assert!(refused(&served, "open", "x").contains("1045"));
    assert!(refused(&served, "nobody", "x").contains("1045"));
    // SET PASSWORD keeps the plugin.
    served.root("SET PASSWORD FOR native = 'new'");
    let made = served.root("SHOW CREATE USER native");
    assert!(made.contains("'mysql_native_password' AS '*"), "{made}");
    assert_eq!(served.try_as("native", "new", "SELECT 1"), Ok("1\n".into()));
    // What SHOW CREATE USER says makes the same account again.
    let made = served.root("SHOW CREATE USER sha");
    served.root(&format!("DROP USER sha; {made}"));
    assert_eq!(served.try_as("sha", "secret", "SELECT 1"), Ok("1\n".into()));
}

#[test]
fn slow_hashes_of_mysql_are_taken_over() {
    // MySQL's hash of `secret`.
    let hash = "$A$005$saltsaltsaltsaltsaltVfuCrt74BT5cmWuUzyrKv5/ilfRWJ4UtpS/Dq2WJLG2";
    let mut served = Served::start(&[]);
    let digits: String = hash.bytes().map(|byte| format!("{byte:02x}")).collect();
    served.root(&format!(
        "CREATE USER slow IDENTIFIED WITH 'caching_sha2_password' AS '{hash}';          CREATE USER other IDENTIFIED WITH 'caching_sha2_password' AS 0x{digits}"
    ));
    let made = served.root("SHOW CREATE USER slow");
    assert!(made.contains(&format!("AS '{hash}'")), "{made}");
    let try_as = |served: &Served, password: &str, ssl: &str| {
        answer(&mut served.mariadb("slow", password, &[ssl, "-e", "SELECT CURRENT_USER()"]))
    };
    for _ in 0..2 {
        // The password itself is needed at first, which only an encrypted connection brings.
        let error = try_as(&served, "secret", "--skip-ssl").unwrap_err();
        assert_eq!(number_of(&error), "1045 (28000)");
        for wrong in ["Secret", ""] {
            let error = try_as(&served, wrong, "--ssl").unwrap_err();
            assert_eq!(number_of(&error), "1045 (28000)");
        }
        assert_eq!(
            try_as(&served, "secret", "--ssl"),
            Ok("slow@%
"
            .into())
        );
        // From then on the fast exchange is enough.
        assert_eq!(
            try_as(&served, "secret", "--skip-ssl"),
            Ok("slow@%
"
            .into())
        );
        let error = try_as(&served, "Secret", "--skip-ssl").unwrap_err();
        assert_eq!(number_of(&error), "1045 (28000)");
        served.restart();
    }
    served.root("ALTER USER slow IDENTIFIED BY 'new'");
    assert_eq!(
        try_as(&served, "new", "--skip-ssl"),
        Ok("slow@%
"
        .into())
    );
}

#[test]
fn locked_and_expired_accounts() {
    let served = Served::start(&[]);
    served.root("CREATE USER ann IDENTIFIED BY 'secret' ACCOUNT LOCK");
    let error = refused(&served, "ann", "secret");
    assert!(
        error.contains("Access denied for user 'ann'@'127.0.0.1'. Account is locked."),
        "{error}"
    );
    assert_eq!(number_of(&error), "3118 (HY000)");
    assert!(
        refused(&served, "ann", "wrong").contains("1045"),
        "a lock is no oracle"
    );
    served.root("ALTER USER ann ACCOUNT UNLOCK PASSWORD EXPIRE");
    assert_eq!(
        number_of(&refused(&served, "ann", "secret")),
        "1862 (HY000)"
    );
    let expired = |password: &str, sql: &str| {
        let arguments = ["--connect-expired-password", "-e", sql];
        answer(&mut served.mariadb("ann", password, &arguments))
    };
    for sql in [
        "SELECT 1",
        "SHOW DATABASES",
        "DROP USER ann",
        "ALTER USER ann ACCOUNT LOCK",
    ] {
        let error = expired("secret", sql).unwrap_err();
        assert_eq!(number_of(&error), "1820 (HY000)", "{sql}");
    }
    let changed = "SET PASSWORD = 'new'; SELECT 1";
    assert_eq!(
        expired("secret", changed),
        Ok("1\n".into()),
        "in the same session"
    );
    assert_eq!(served.try_as("ann", "new", "SELECT 2"), Ok("2\n".into()));
    served.root("ALTER USER ann PASSWORD EXPIRE");
    let changed = "ALTER USER CURRENT_USER() IDENTIFIED BY 'newer'; SELECT 3";
    assert_eq!(expired("new", changed), Ok("3\n".into()));
}

#[test]
fn the_most_specific_host_decides() {
    let served = Served::start(&[]);
    served.root(
        "CREATE USER ann@'%' IDENTIFIED BY 'any'; CREATE USER ann@'127.0.0._' IDENTIFIED BY 'pattern'; \
         CREATE USER ann@'10.%' IDENTIFIED BY 'other'",
    );
    let who = |password: &str| served.try_as("ann", password, "SELECT CURRENT_USER(), USER()");
    assert_eq!(who("pattern"), Ok("ann@127.0.0._\tann@127.0.0.1\n".into()));
    assert!(who("any").is_err() && who("other").is_err());
    served.root("CREATE USER ann@localhost IDENTIFIED BY 'local'");
    assert_eq!(who("local"), Ok("ann@localhost\tann@127.0.0.1\n".into()));
    assert!(who("pattern").is_err());
    served.root("DROP USER ann@localhost, ann@'127.0.0._'");
    assert_eq!(who("any"), Ok("ann@%\tann@127.0.0.1\n".into()));
}

#[test]
fn errors_of_statements_about_accounts() {
    let served = Served::start(&[]);
    served.root(
        "CREATE USER ann IDENTIFIED BY 'secret'; CREATE DATABASE d; CREATE TABLE d.t (a INT)",
    );
    for (sql, number) in [
        ("CREATE USER ann", "1396 (HY000)"),
        ("CREATE USER bob, ann", "1396 (HY000)"),
        ("DROP USER bob", "1396 (HY000)"),
        ("ALTER USER bob IDENTIFIED BY 'x'", "1396 (HY000)"),
        ("RENAME USER bob TO carl", "1396 (HY000)"),
        ("RENAME USER ann TO root@localhost", "1396 (HY000)"),
        ("GRANT SELECT ON *.* TO bob", "1410 (42000)"),
        ("GRANT SELECT ON d.missing TO ann", "1146 (42S02)"),
        ("GRANT PROCESS ON d.* TO ann", "1221 (HY000)"),
        ("GRANT PROCESS ON d.t TO ann", "1144 (42000)"),
        ("GRANT CONNECTION_ADMIN ON d.* TO ann", "3619 (HY000)"),
        ("GRANT SELECT ON * TO ann", "1046 (3D000)"),
        ("REVOKE SELECT ON d.* FROM ann", "1141 (42000)"),
        ("REVOKE SELECT ON d.t FROM ann", "1147 (42000)"),
        ("SHOW GRANTS FOR bob", "1141 (42000)"),
        ("SHOW CREATE USER bob", "1396 (HY000)"),
        ("GRANT some_role TO ann", "3523 (HY000)"),
        ("GRANT SELECT (b) ON d.t TO ann", "1054 (42S22)"),
        ("GRANT EXECUTE ON PROCEDURE d.p TO ann", "1305 (42000)"),
        (
            "CREATE USER bob IDENTIFIED WITH nosuch BY 'x'",
            "1524 (HY000)",
        ),
    ] {
        let error = served.try_as("root", "", sql).unwrap_err();
        assert_eq!(number_of(&error), number, "{sql}: {error}");
    }
    // Of several accounts all are made or none.
    assert_eq!(
        served.root("SELECT COUNT(*) FROM mysql.user WHERE User = 'bob'"),
        "0\n"
    );
    served.root("CREATE USER IF NOT EXISTS ann, bob; DROP USER IF EXISTS bob, nobody");
    let users = served.root("SELECT User, Host FROM mysql.user ORDER BY User");
    assert_eq!(users, "ann\t%\nroot\tlocalhost\n");
}

#[test]
fn passwords_are_not_seen_in_the_list_of_connections() {
    let served = Served::start(&[]);
    served.root(
        "CREATE DATABASE d; CREATE TABLE d.t (a INT PRIMARY KEY); INSERT INTO d.t VALUES (1)",
    );
    // It waits for the row, with a password in its text.
    let holder = "BEGIN; SELECT * FROM d.t FOR UPDATE; SELECT SLEEP(3)";
    let start = |sql: &str| {
        let mut command = served.mariadb("root", "", &["-e", sql]);
        command.stdout(Stdio::null()).spawn().unwrap()
    };
    let mut first = start(holder);
    std::thread::sleep(Duration::from_millis(500));
    let mut second =
        start("UPDATE d.t SET a = 2 /* IDENTIFIED BY */ WHERE 'top secret' <> 'password'");
    let begin = Instant::now();
    let shown = loop {
        let shown = served.root("SHOW FULL PROCESSLIST");
        if shown.contains("UPDATE d.t") {
            break shown;
        }
        assert!(begin.elapsed() < Duration::from_secs(10), "{shown}");
    };
    assert!(
        shown.contains("<secret>") && !shown.contains("top secret"),
        "{shown}"
    );
    assert!(first.wait().unwrap().success() && second.wait().unwrap().success());
}

#[test]
fn root_with_a_password_is_asked_for_it() {
    let mut served = Served::start(&[]);
    served.root("ALTER USER root@localhost IDENTIFIED BY 'top'");
    served.restart();
    assert!(refused(&served, "root", "").contains("1045"));
    assert_eq!(served.try_as("root", "top", "SELECT 1"), Ok("1\n".into()));
}
