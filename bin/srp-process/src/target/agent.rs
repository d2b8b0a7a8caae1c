//! The device management agent of a port: a thread that answers the datagrams of its class.

use std::io;

use anyhow::{Context, Result, anyhow};
use weft_client::umad::{CaPort, Library, MethodMask, Packet, Port, Registration};
use weft_srp::device_management::DeviceManager;
use weft_tool::{errln, errno};
use weft_wire::mad::dev_mgt::CLASS_VERSION;
use weft_wire::mad::{Class, GSI_QKEY, MAD_LEN, Mad};
use zerocopy::IntoBytes;

/// Starts the agent. It ends with the process.
///
/// # Errors
/// The port may not be opened, or another program answers its device management.
pub fn start(library: Library, at: &CaPort, manager: DeviceManager) -> Result<()> {
    let text = |error: io::Error| anyhow!("{}", errno::text(&error));
    let port = Port::open(library, Some(&at.ca_name), at.number.into()).map_err(text)?;
    let methods = DeviceManager::METHODS.iter().fold(0, |mask: MethodMask, method| mask | 1 << method.0);
    let agent = port.register(&Registration {
        class: Class::DEV_MGT.0,
        class_version: CLASS_VERSION,
        methods: Some(methods),
        ..Registration::default()
    });
    // The call does not tell why it fails.
    let agent = agent.map_err(text).context("another program may be the port's device management agent")?;
    let name = format!("{} port {}", at.ca_name, at.number);
    std::thread::Builder::new().name("device manager".to_owned()).spawn(move || {
        let error = serve(&port, agent, &manager);
        errln!("weft srp target: {name}: the device management agent ends: {}", errno::text(&error));
    })?;
    Ok(())
}

/// Answers requests until the port fails, and returns why.
fn serve(port: &Port, agent: i32, manager: &DeviceManager) -> io::Error {
    let mut packet = Packet::new(port.library(), MAD_LEN);
    loop {
        packet.resize(MAD_LEN);
        match port.recv(&mut packet, -1) {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return error,
        }
        let Some(answer) = Mad::parse(packet.mad()).and_then(|request| manager.answer(&request)) else { continue };
        let mut to = packet.address();
        to.qkey = GSI_QKEY;
        packet.resize(MAD_LEN);
        packet.mad_mut().copy_from_slice(answer.as_bytes());
        packet.set_address(&to);
        // A response that cannot be sent is lost; the sender repeats its request.
        let _ = port.send(agent, &mut packet, 0, 0);
    }
}
