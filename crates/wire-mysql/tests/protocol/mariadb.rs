//! The server as the `mariadb` (or `mysql`) command line and `mysqladmin` see it. A missing client
//! fails these tests: a protocol that no real client was tried on is not tested.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::Ordering;

use tokio::task::spawn_blocking;

use crate::script::{Seen, start};

/// The first of `names` that is installed.
fn program(names: &[&str]) -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .flat_map(|folder| names.iter().map(move |name| folder.join(name)))
        .find(|candidate| candidate.is_file())
        .unwrap_or_else(|| {
            panic!("none of {names:?} is installed; scripts/install-test-peers installs them")
        })
}

/// A command line that connects to `address` as `user`.
fn client(address: SocketAddr, user: &str) -> Command {
    let mut command = Command::new(program(&["mariadb", "mysql"]));
    connect(&mut command, address, user);
    command.arg("--default-character-set=utf8mb4");
    command
}

fn connect(command: &mut Command, address: SocketAddr, user: &str) {
    command.args(["--no-defaults", "--protocol=tcp", "--host=127.0.0.1"]);
    command
        .arg(format!("--port={}", address.port()))
        .arg(format!("--user={user}"));
    command.env_remove("MYSQL_PWD").stdin(Stdio::null());
}

async fn output(mut command: Command) -> Output {
    spawn_blocking(move || command.output().unwrap())
        .await
        .unwrap()
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

/// Runs the command line with `arguments`; it must succeed.
async fn run(address: SocketAddr, arguments: &[&str]) -> String {
    let mut command = client(address, "root");
    command.args(arguments);
    let output = output(command).await;
    assert!(
        output.status.success(),
        "{arguments:?}: {}",
        text(&output.stderr)
    );
    text(&output.stdout).to_owned()
}

/// Runs the command line with `arguments`; it must fail. Gives what it complains of.
async fn fail(address: SocketAddr, arguments: &[&str]) -> String {
    let mut command = client(address, "root");
    command.args(arguments);
    let output = output(command).await;
    assert!(
        !output.status.success(),
        "{arguments:?}: {}",
        text(&output.stdout)
    );
    text(&output.stderr).to_owned()
}

#[tokio::test]
async fn rows_of_every_type() {
    let (server, _) = start(|_| {});
    let shown = run(server.address(), &["-e", "SELECT TYPES"]).await;
    let expected = "i\tu\td\tf\tday\tat\ts\tb\n\
        1\t18446744073709551615\t1234.56\t1e20\t1994-01-01\t1994-01-01 00:00:00.123\t\
        na\u{ef}ve caf\u{e9}, more than 12\ta\\0b\n\
        -2\tNULL\tNULL\tNULL\tNULL\tNULL\tNULL\tNULL\n";
    assert_eq!(shown, expected);
    let table = run(
        server.address(),
        &["--table", "-e", "SELECT NOTHING; SELECT 1"],
    )
    .await;
    assert_eq!(table, "+------+\n| 1    |\n+------+\n|    1 |\n+------+\n");
}

#[tokio::test]
async fn the_client_understands_the_metadata() {
    let (server, _) = start(|_| {});
    let arguments = ["--column-type-info", "--table", "-e", "SELECT TYPES"];
    let shown = run(server.address(), &arguments).await;
    let fields: Vec<Vec<String>> = shown
        .split("\nField ")
        .skip(1)
        .chain(shown.strip_prefix("Field "))
        .map(|field| {
            let value = |line: &str| line.split_once(':').map(|(_, v)| v.trim().to_owned());
            field.lines().filter_map(value).collect()
        })
        .collect();
    // name, org_name, catalog, database, table, org_table, type, collation, length, max_length,
    // decimals, flags
    let field = |name: &str| {
        let wanted = format!("`{name}`");
        fields
            .iter()
            .find(|f| f[0] == wanted)
            .unwrap_or_else(|| panic!("{shown}"))
    };
    let described = |name: &str| {
        let f = field(name);
        (
            f[6].clone(),
            f[7].clone(),
            f[8].clone(),
            f[10].clone(),
            f[11].clone(),
        )
    };
    let expect = |name: &str, values: [&str; 5]| {
        let [a, b, c, d, e] = values.map(str::to_owned);
        assert_eq!(described(name), (a, b, c, d, e), "{name}");
    };
    assert_eq!(field("i")[3..6], ["`test`", "`t`", "`t`"]);
    expect(
        "i",
        ["LONG", "binary (63)", "11", "0", "NOT_NULL PRI_KEY NUM"],
    );
    expect("u", ["LONGLONG", "binary (63)", "20", "0", "UNSIGNED NUM"]);
    expect("d", ["NEWDECIMAL", "binary (63)", "17", "2", "NUM"]);
    expect("f", ["DOUBLE", "binary (63)", "22", "31", "NUM"]);
    expect("day", ["DATE", "binary (63)", "10", "0", "BINARY"]);
    expect("at", ["DATETIME", "binary (63)", "23", "3", "BINARY"]);
    expect(
        "s",
        ["VAR_STRING", "utf8mb4_general_ci (45)", "80", "0", "BINARY"],
    );
    expect("b", ["VAR_STRING", "binary (63)", "20", "0", "BINARY"]);
}

#[tokio::test]
async fn several_results_of_one_query() {
    let (server, _) = start(|_| {});
    let arguments = [
        "--delimiter=//",
        "-vv",
        "-e",
        "SELECT 1; INSERT; SELECT USER//",
    ];
    let shown = run(server.address(), &arguments).await;
    let parts = [
        "1\n1\n",
        "Query OK, 3 rows affected, 1 warning",
        "USER\nroot\n",
    ];
    let mut at = 0;
    for part in parts {
        at += shown[at..]
            .find(part)
            .unwrap_or_else(|| panic!("{part:?} in {shown}"));
    }
    assert!(
        shown.contains("Records: 3  Duplicates: 0  Warnings: 1"),
        "{shown}"
    );
}

#[tokio::test]
async fn errors_show_number_and_state() {
    let (server, _) = start(|_| {});
    let address = server.address();
    let shown = fail(address, &["-e", "FAIL"]).await;
    let expected = "ERROR 1064 (42000) at line 1: unexpected end near 'FAIL' at line 1\n";
    assert!(shown.ends_with(expected), "{shown}");
    let shown = fail(address, &["-e", "SELECT 1", "nosuch"]).await;
    assert_eq!(shown, "ERROR 1049 (42000): Unknown database 'nosuch'\n");
    assert_eq!(run(address, &["-N", "-e", "SELECT 1", "test"]).await, "1\n");
}

#[tokio::test]
async fn passwords_by_both_methods() {
    let (server, _) = start(|_| {});
    for method in ["caching_sha2_password", "mysql_native_password"] {
        let login = |user: &str, password: &str| {
            let mut command = client(server.address(), user);
            command.arg(format!("--default-auth={method}"));
            if !password.is_empty() {
                command.arg(format!("--password={password}"));
            }
            command.args(["-N", "-e", "SELECT USER"]);
            output(command)
        };
        let right = login("ann", "secret").await;
        assert_eq!(
            text(&right.stdout),
            "ann\n",
            "{method}: {}",
            text(&right.stderr)
        );
        assert_eq!(text(&login("root", "").await.stdout), "root\n");
        let wrong = login("ann", "guess").await;
        let complaint = "ERROR 1045 (28000): \
            Access denied for user 'ann'@'127.0.0.1' (using password: YES)\n";
        assert_eq!(text(&wrong.stderr), complaint, "{method}");
        assert!(!login("ann", "").await.status.success());
        assert!(!login("root", "x").await.status.success());
    }
}

#[tokio::test]
async fn files_of_the_client() {
    let (server, seen) = start(|_| {});
    let address = server.address();
    let path = std::env::temp_dir().join(format!("perigee-wire-{}.tbl", std::process::id()));
    let content = "1|a|\n2|b|\n".repeat(100_000);
    std::fs::write(&path, &content).unwrap();
    let load = format!("LOAD {}", path.display());
    let shown = run(address, &["--local-infile=1", "-vv", "-e", &load]).await;
    assert!(shown.contains("Query OK, 200000 rows affected"), "{shown}");
    assert!(
        shown.contains("Records: 200000  Deleted: 0  Skipped: 0  Warnings: 0"),
        "{shown}"
    );
    assert_eq!(seen.file_bytes.load(Ordering::SeqCst), content.len());
    let badly = format!("LOAD BADLY {}; SELECT 1", path.display());
    let shown = fail(address, &["--local-infile=1", "-e", &badly]).await;
    let expected = "ERROR 1366 (HY000) at line 1: \
        Incorrect integer value: 'x' for column 'a' at row 1\n";
    assert!(shown.ends_with(expected), "{shown}");
    let shown = fail(address, &["--local-infile=1", "-e", "LOAD /no/such/file"]).await;
    assert!(shown.contains("/no/such/file"), "{shown}");
    let shown = fail(address, &["--local-infile=0", "-e", &load]).await;
    assert!(shown.contains("ERROR 3948 (42000)"), "{shown}");
    std::fs::remove_file(&path).unwrap();
}

/// Sends Ctrl-C to a program.
fn interrupt(child: &Child) {
    let status = Command::new("kill")
        .args(["-INT", &child.id().to_string()])
        .status()
        .unwrap();
    assert!(status.success());
}

#[tokio::test]
async fn ctrl_c_kills_the_query() {
    let (server, seen) = start(|_| {});
    let mut command = client(server.address(), "root");
    command.args(["-e", "SLEEP"]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    while !server
        .registry()
        .list()
        .iter()
        .any(|p| p.state == "sleeping")
    {
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    interrupt(&child);
    let output = spawn_blocking(move || child.wait_with_output().unwrap())
        .await
        .unwrap();
    assert_eq!(seen.cancelled.load(Ordering::SeqCst), 1);
    let complaint = text(&output.stderr);
    assert!(complaint.contains("ERROR 1317 (70100)"), "{complaint}");
    assert!(
        text(&output.stdout).contains("query killed"),
        "{}",
        text(&output.stdout)
    );
    let counters = server.registry().counters();
    assert_eq!(
        counters.connections, 2,
        "the client connected again to say KILL QUERY"
    );
    assert_eq!(
        counters.aborted_clients, 0,
        "both connections lived on to their COM_QUIT"
    );
}

#[tokio::test]
async fn a_client_that_is_killed_cancels_its_query() {
    let (server, seen) = start(|_| {});
    let mut command = client(server.address(), "root");
    command
        .args(["--quick", "-e", "ENDLESS"])
        .stdout(Stdio::null());
    let mut child = command.spawn().unwrap();
    Seen::wait(&seen.batches, 10).await;
    child.kill().unwrap();
    child.wait().unwrap();
    Seen::wait(&seen.cancelled, 1).await;
}

#[tokio::test]
async fn one_client_too_many() {
    let (server, _) = start(|config| config.max_connections = 0);
    let shown = fail(server.address(), &["-e", "SELECT 1"]).await;
    assert_eq!(shown, "ERROR 1040 (08004): Too many connections\n");
}

#[tokio::test]
async fn mysqladmin_works() {
    let (server, _) = start(|_| {});
    let admin = |arguments: &[&str]| {
        let mut command = Command::new(program(&["mariadb-admin", "mysqladmin"]));
        connect(&mut command, server.address(), "root");
        command.args(arguments);
        output(command)
    };
    let alive = admin(&["ping"]).await;
    assert!(
        text(&alive.stdout).contains("is alive"),
        "{}",
        text(&alive.stderr)
    );
    let status = admin(&["status"]).await;
    assert!(
        text(&status.stdout).starts_with("Uptime: "),
        "{}",
        text(&status.stdout)
    );
    let mut victim = crate::client::Client::root(server.address()).await;
    let killed = admin(&["kill", &victim.id.to_string()]).await;
    assert!(killed.status.success(), "{}", text(&killed.stderr));
    victim.seq = 1;
    assert_eq!(victim.result().await.errno(), 1317);
}
