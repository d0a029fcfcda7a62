//! TLS with the clients that people come with, and how a server is told of its certificate.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use perigee_testkit::tested_binary;

use crate::{Served, answer, number_of, peer};

/// The status of a session's encryption, by the `mariadb` command line.
fn encryption(served: &Served, arguments: &[&str]) -> Result<String, String> {
    let ask = ["-e", "SHOW STATUS LIKE 'Ssl_%'"];
    answer(&mut served.mariadb("root", "", &[arguments, &ask].concat()))
}

#[test]
fn the_command_line_encrypts_and_checks_the_certificate() {
    let served = Served::start(&[]);
    let plain = encryption(&served, &["--skip-ssl"]).unwrap();
    assert_eq!(plain, "Ssl_cipher\t\nSsl_version\t\n");
    for more in [&[][..], &["--compress"]] {
        let shown = encryption(&served, &[&["--ssl"], more].concat()).unwrap();
        assert_eq!(
            shown,
            "Ssl_cipher\tTLS_AES_256_GCM_SHA384\nSsl_version\tTLSv1.3\n"
        );
    }
    let older = encryption(&served, &["--ssl", "--tls-version=TLSv1.2"]).unwrap();
    assert!(
        older.contains("Ssl_version\tTLSv1.2") && older.contains("ECDHE-ECDSA-"),
        "{older}"
    );
    let variables = served.root(
        "SHOW VARIABLES WHERE Variable_name IN ('have_ssl', 'tls_version', 'require_secure_transport')",
    );
    assert_eq!(
        variables,
        "have_ssl\tYES\nrequire_secure_transport\tOFF\ntls_version\tTLSv1.2,TLSv1.3\n"
    );
    let paths = served.root("SELECT @@ssl_cert, @@ssl_key");
    let (certificate, key) = paths.trim().split_once('\t').unwrap();
    assert_eq!(
        fs::metadata(key).unwrap().permissions().mode() & 0o777,
        0o600
    );
    let authority = format!("--ssl-ca={certificate}");
    let verified = encryption(&served, &["--ssl-verify-server-cert", &authority]).unwrap();
    assert!(verified.contains("TLSv1.3"), "{verified}");
    // Much in both directions.
    let long = "x".repeat(3 << 20);
    let script = served.dir.path().join("long.sql");
    fs::write(
        &script,
        format!("SELECT LENGTH('{long}'), REPEAT('y', 3000000);"),
    )
    .unwrap();
    let mut client = served.mariadb(
        "root",
        "",
        &["--ssl", "--compress", "--max-allowed-packet=64M"],
    );
    client.stdin(fs::File::open(&script).unwrap());
    let shown = answer(&mut client).unwrap();
    assert_eq!(shown.len(), "3145728\t".len() + 3_000_000 + 1);
}

#[test]
fn a_certificate_is_kept_and_one_that_is_given_is_used() {
    let mut served = Served::start(&[]);
    let certificate = served.dir.path().join("serve/server-cert.pem");
    let key = served.dir.path().join("serve/server-key.pem");
    let made = fs::read(&certificate).unwrap();
    served.restart();
    assert_eq!(fs::read(&certificate).unwrap(), made);
    let (other_certificate, other_key) = (
        served.dir.path().join("c.pem"),
        served.dir.path().join("k.pem"),
    );
    fs::copy(&certificate, &other_certificate).unwrap();
    fs::copy(&key, &other_key).unwrap();
    let path = |path: &std::path::Path| path.to_str().unwrap().to_owned();
    served.arguments = vec![
        "--tls-cert".into(),
        path(&other_certificate),
        "--tls-key".into(),
        path(&other_key),
    ];
    served.restart();
    assert_eq!(
        served.root("SELECT @@ssl_cert"),
        format!("{}\n", path(&other_certificate))
    );
    assert!(encryption(&served, &["--ssl"]).unwrap().contains("TLSv1.3"));
    served.arguments = vec!["--no-tls".into()];
    served.restart();
    assert_eq!(served.root("SELECT @@have_ssl"), "DISABLED\n");
    assert!(encryption(&served, &["--ssl-verify-server-cert"]).is_err());
}

#[test]
fn a_server_that_requires_tls() {
    let served = Served::start(&["--require-tls"]);
    let error = encryption(&served, &["--skip-ssl"]).unwrap_err();
    assert!(error.contains("--require_secure_transport=ON"), "{error}");
    assert_eq!(number_of(&error), "3159 (HY000)");
    assert!(encryption(&served, &["--ssl"]).unwrap().contains("TLSv1.3"));
}

#[test]
fn a_certificate_that_cannot_be_used_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let bad = dir.path().join("bad.pem");
    fs::write(&bad, "nothing").unwrap();
    let start = |arguments: &[&str]| {
        let mut server = Command::new(tested_binary(env!("CARGO_BIN_EXE_perigee")));
        server
            .args(["serve", "--data", "data", "--listen", "127.0.0.1:0"])
            .args(arguments)
            .current_dir(dir.path());
        answer(&mut server).unwrap_err()
    };
    let error = start(&["--tls-cert", "bad.pem", "--tls-key", "bad.pem"]);
    assert!(error.contains("bad.pem cannot be used for TLS"), "{error}");
    assert!(error.contains("--tls-cert"), "{error}");
    let error = start(&["--tls-cert", "absent.pem", "--tls-key", "bad.pem"]);
    assert!(
        error.contains("absent.pem cannot be used for TLS: No such file"),
        "{error}"
    );
    let error = start(&["--tls-cert", "bad.pem"]);
    assert!(error.contains("--tls-key"), "{error}");
    let error = start(&["--no-tls", "--require-tls"]);
    assert!(error.contains("--no-tls"), "{error}");
}

/// Logs in with TLS, asks, and sends a long text.
const PYMYSQL: &str = "
import pymysql, sys
port, ca = int(sys.argv[1]), sys.argv[2]
c = pymysql.connect(host='127.0.0.1', port=port, user='ann', password='secret', ssl={'ca': ca, 'check_hostname': True})
with c.cursor() as cursor:
    cursor.execute(\"SHOW STATUS LIKE 'Ssl_version'\")
    assert cursor.fetchall() == (('Ssl_version', 'TLSv1.3'),)
    cursor.execute('SELECT LENGTH(%s)', ('x' * 1000000,))
    assert cursor.fetchone() == (1000000,)
print('done')
";

const CONNECTOR: &str = "
import mysql.connector, sys
port, ca = int(sys.argv[1]), sys.argv[2]
c = mysql.connector.connect(host='127.0.0.1', port=port, user='ann', password='secret', use_pure=True, collation='utf8mb4_bin',
                            ssl_ca=ca, ssl_verify_cert=True)
cursor = c.cursor()
cursor.execute(\"SHOW STATUS LIKE 'Ssl_version'\")
assert cursor.fetchall() == [('Ssl_version', 'TLSv1.3')]
print('done')
";

#[test]
fn drivers_encrypt_and_check_the_certificate() {
    let served = Served::start(&["--require-tls"]);
    let mut root = served.mariadb(
        "root",
        "",
        &["--ssl", "-e", "CREATE USER ann IDENTIFIED BY 'secret'"],
    );
    answer(&mut root).unwrap();
    let certificate = served.dir.path().join("serve/server-cert.pem");
    for script in [PYMYSQL, CONNECTOR] {
        let mut driver = Command::new(peer("python/bin/python"));
        driver
            .args(["-c", script, &served.port().to_string()])
            .arg(&certificate);
        assert_eq!(answer(&mut driver), Ok("done\n".into()), "{script}");
    }
}
