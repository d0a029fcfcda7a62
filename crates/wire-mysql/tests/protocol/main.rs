//! The server as its clients see it: a scripted session behind real sockets, driven by packets made
//! by hand and by the `mariadb` command line.
#![allow(clippy::unwrap_used, missing_docs, reason = "tests")]

mod cancel;
mod client;
mod compress;
mod files;
mod limits;
mod login;
mod mariadb;
mod prepared;
mod results;
mod script;
mod tls;
