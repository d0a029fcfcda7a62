//! Compiles the service definition without a `protoc` binary.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo::rerun-if-changed=proto/log.proto");
    let files = protox::compile(["proto/log.proto"], ["proto"])?;
    tonic_prost_build::configure()
        // Payloads share the memory of the message they came in.
        .bytes(".perigee.log.v1.AppendRequest.payload")
        .bytes(".perigee.log.v1.Entry.payload")
        .compile_fds(files)?;
    Ok(())
}
