//! Makes the reference answers anew: `cargo run --release -p perigee-bench --example answers`.
//! Starts a private MariaDB, loads TPC-H at the kept scale factors, and writes what it answers.

use perigee_testkit::MariaDb;
use perigee_workload::{WorkloadError, answers, load, tpch};

fn main() -> Result<(), WorkloadError> {
    let dir = std::env::temp_dir().join("perigee-answers");
    for scale in [0.01, 0.1] {
        let data = dir.join(format!("scale-{scale}"));
        load::generate(&data, scale, |_| {})?;
        let run = |schema: &str, sql: &str| {
            let server = MariaDb::start(&dir.join(format!("mariadb-{scale}")), &[]);
            server
                .and_then(|s| s.query(schema, sql))
                .map_err(WorkloadError::io("MariaDB"))
        };
        let mut script = format!("CREATE OR REPLACE DATABASE {0}; USE {0};", load::SCHEMA);
        for table in tpch::TABLES {
            script += &format!(
                "{}; LOAD DATA LOCAL INFILE '{}' INTO TABLE {} {}; ANALYZE TABLE {2};",
                table.create(),
                load::file(&data, table.name).display(),
                table.name,
                tpch::LOAD_OPTIONS
            );
        }
        run("", &script)?;
        for (number, sql) in tpch::queries(scale) {
            let text = run(load::SCHEMA, &sql)?;
            println!("scale {scale} Q{number}: {} rows", text.lines().count());
            answers::write(&answers::directory(scale), number, &text)?;
        }
    }
    Ok(())
}
