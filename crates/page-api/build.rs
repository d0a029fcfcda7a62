//! Compiles the service definition without a `protoc` binary.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo::rerun-if-changed=proto/page.proto");
    let files = protox::compile(["proto/page.proto"], ["proto"])?;
    tonic_prost_build::configure()
        // Payloads share the memory of the message they came in.
        .bytes(".perigee.page.v1.WriteLogsRequest.groups")
        .bytes(".perigee.page.v1.ReadPagesResponse.pages")
        .bytes(".perigee.page.v1.NdpReadRequest.descriptor")
        .bytes(".perigee.page.v1.NdpFilter.hash")
        .bytes(".perigee.page.v1.NdpFilter.content")
        .bytes(".perigee.page.v1.NdpItem.payload")
        .compile_fds(files)?;
    Ok(())
}
