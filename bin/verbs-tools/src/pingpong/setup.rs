//! Opening the selected device and finding its address.

use weft_abi_types::{IBV_ACCESS_LOCAL_WRITE, IBV_ACCESS_ON_DEMAND, IBV_LINK_LAYER_ETHERNET, ibv_port_attr};

use super::device_choice::DeviceChoice;
use super::options::Options;
use weft_client::Which;
use weft_client::verbs::{Buffer, Channel, Connect, Context, DeviceList, Library, Path, Pd};

/// An open device with the objects common to all queue pairs of a run.
pub struct Setup {
    /// The choice of the device.
    pub choice: DeviceChoice,
    /// Its name.
    pub name: String,
    /// The device.
    pub context: Context,
    /// Attributes of its port.
    pub port: ibv_port_attr,
    /// The protection domain of all objects.
    pub pd: Pd,
    /// Completion channel, if the program sleeps on events.
    pub channel: Option<Channel>,
    /// Local GID and its index, on RoCE or if the user chose one.
    pub gid: Option<([u8; 16], u8)>,
}

impl Setup {
    /// Opens the device.
    ///
    /// # Errors
    /// The line to print.
    pub fn open(choice: &DeviceChoice, events: bool) -> Result<Setup, String> {
        let which = if choice.system { Which::System } else { Which::Ours };
        let library = Library::load(which).map_err(|e| format!("{e:#}"))?;
        let list = DeviceList::new(library)
            .map_err(|e| format!("Failed to get IB devices list: {}", crate::errno::text(&e)))?;
        let device = list.find(choice.name.as_deref()).ok_or_else(|| match &choice.name {
            Some(name) => format!("IB device {name} not found"),
            None => "No IB devices found".to_owned(),
        })?;
        let context = device.open().map_err(|_| format!("Couldn't get context for {}", device.name()))?;
        let port = context.query_port(choice.port).map_err(|_| "Couldn't get port info".to_owned())?;
        let ethernet = u32::from(port.link_layer) == IBV_LINK_LAYER_ETHERNET;
        if !ethernet && port.lid == 0 {
            return Err("Couldn't get local LID".to_owned());
        }
        let gid = match choice.gid_idx {
            Some(index) => {
                let row = context
                    .query_gid(choice.port, index)
                    .ok()
                    .zip(u8::try_from(index).ok())
                    .ok_or_else(|| format!("can't read sgid of index {index}"))?;
                Some((row.0.gid, row.1))
            }
            // RoCE always needs a GID; the originals make the user choose one.
            None if ethernet => {
                context.default_gid(choice.port).and_then(|row| Some((row.gid, u8::try_from(row.index).ok()?)))
            }
            None => None,
        };
        let channel = match events {
            true => Some(Channel::new(&context).map_err(|_| "Couldn't create completion channel".to_owned())?),
            false => None,
        };
        let pd = Pd::new(&context).map_err(|_| "Couldn't allocate PD".to_owned())?;
        Ok(Setup { choice: choice.clone(), name: device.name(), context, port, pd, channel, gid })
    }

    /// Registers a buffer of `bytes` bytes with the access that the options select.
    pub fn buffer(&self, options: &Options, bytes: usize) -> Result<Buffer, String> {
        let mut access = IBV_ACCESS_LOCAL_WRITE;
        if options.odp {
            self.require_odp(options)?;
            access |= IBV_ACCESS_ON_DEMAND;
        }
        let buffer =
            Buffer::new(&self.pd, bytes, access, options.iodp).map_err(|_| "Couldn't register MR".to_owned())?;
        if options.prefetch
            && let Err(e) = buffer.prefetch()
        {
            crate::errln!("Couldn't prefetch MR({}). Continue anyway", e.raw_os_error().unwrap_or(0));
        }
        Ok(buffer)
    }

    fn require_odp(&self, options: &Options) -> Result<(), String> {
        let attr = self.context.query_device().map_err(|_| "Couldn't query device for its features".to_owned())?;
        let wanted = weft_abi_types::IBV_ODP_SUPPORT_SEND | weft_abi_types::IBV_ODP_SUPPORT_RECV;
        let general = attr.odp_caps.general_caps;
        if general & u64::from(weft_abi_types::IBV_ODP_SUPPORT) == 0
            || attr.odp_caps.per_transport_caps.rc_odp_caps & wanted != wanted
        {
            return Err("The device isn't ODP capable or does not support RC send and receive with ODP".to_owned());
        }
        if options.iodp && general & u64::from(weft_abi_types::IBV_ODP_SUPPORT_IMPLICIT) == 0 {
            return Err("The device doesn't support implicit ODP".to_owned());
        }
        Ok(())
    }

    /// The local GID, or zeroes.
    pub fn gid_bytes(&self) -> [u8; 16] {
        self.gid.map(|(gid, _)| gid).unwrap_or_default()
    }

    /// The path to a peer.
    pub fn path(&self, lid: u16, gid: [u8; 16]) -> Path {
        // A peer that sends no GID has only a LID.
        let has_gid = gid[8..] != [0; 8];
        Path {
            dlid: lid,
            sl: self.choice.sl,
            port_num: self.choice.port,
            gid: has_gid.then(|| (gid, self.gid.map_or(0, |(_, index)| index))),
            hop_limit: 1,
        }
    }

    /// The parameters for connecting to a peer at `path`.
    pub fn connection(&self, path_mtu: u32, path: Path, dest_qpn: u32, rq_psn: u32, sq_psn: u32) -> Connect {
        Connect { dest_qpn, rq_psn, sq_psn, path_mtu, path, rd_atomic: 1 }
    }
}

/// An unpredictable first PSN.
pub fn random_psn() -> u32 {
    (weft_sys::random::u64() & 0xff_ffff) as u32
}
