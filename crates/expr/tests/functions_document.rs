//! `docs/functions.md` says what the library has. `PERIGEE_REWRITE=1` writes it anew.
#![allow(clippy::unwrap_used, reason = "test code")]

use std::fmt::Write;
use std::path::Path;

use perigee_expr::functions::{FAMILIES, Function, Nulls};

/// What is behind it is generated.
const MARK: &str = "<!-- generated from crates/expr/src/functions -->\n";

/// The parameters of a function: those in brackets may be left out.
fn parameters(function: &Function) -> String {
    let (least, most) = function.arguments;
    let shown = most.min(least.max(function.parameters.len()));
    let names: Vec<&str> = (0..shown).map(|i| function.parameter(i).name()).collect();
    let mut text = names[..least].join(", ");
    for (number, name) in names[least..].iter().enumerate() {
        let comma = if least + number > 0 { ", " } else { "" };
        let _ = write!(text, "[{comma}{name}]");
    }
    if most > shown {
        text.push_str(", …");
    }
    text
}

fn generated() -> String {
    let mut text = MARK.to_owned();
    for family in FAMILIES {
        let title = family.title;
        let _ = write!(
            text,
            "\n## {title}\n\n| function | arguments | result |\n|---|---|---|\n"
        );
        for function in family.functions {
            let names: Vec<_> = function
                .names
                .iter()
                .map(|name| format!("`{}`", name.to_uppercase()))
                .collect();
            let names = names.join(", ").replace('|', "\\|");
            let mut about = function.about.to_owned();
            if function.nulls == Nulls::Handled {
                about.push_str(" ¹");
            }
            if function.collates {
                about.push_str(" ²");
            }
            if !function.deterministic {
                about.push_str(" ³");
            }
            let _ = writeln!(text, "| {names} | {} | {about} |", parameters(function));
        }
    }
    text
}

#[test]
fn the_document_has_every_function() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/functions.md");
    let document = std::fs::read_to_string(&path).unwrap();
    let (before, behind) = document.split_at(document.find(MARK).expect("it has the mark"));
    let generated = generated();
    if std::env::var_os("PERIGEE_REWRITE").is_some() {
        std::fs::write(&path, format!("{before}{generated}")).unwrap();
        return;
    }
    assert!(
        behind == generated,
        "docs/functions.md is not what PERIGEE_REWRITE=1 would write"
    );
}
