//! Files that the daemon keeps for virtual hosts, such as connection profiles. The daemon gives their content no meaning.

use std::collections::BTreeMap;
use std::ops::Bound;

use weft_ipc::{
    HOST_FILE_BYTES_MAX, HOST_FILE_NAME_BYTES_MAX, HOST_FILES_BYTES_MAX, HOST_FILES_MAX, HostFile, Refusal, Request,
    Response,
};

use super::call::Call;
use super::route::{Routed, Rules};
use super::shared::Shared;
use crate::host::Host;
use crate::refusal::{EINVAL, ENODEV, ENOSPC, refuse};

/// Bytes of a page; the longest file and a name fit.
const PAGE_BYTES_MAX: usize = 24 << 10;

/// The requests of this feature.
pub(super) fn route<H: Host>(request: Request) -> Routed<H> {
    // Profiles hold passwords on other systems: only those who may change a host's interfaces read them.
    let rules = Rules::PLAIN.trusted("read or change the files of a fabric's hosts");
    Routed::Here(match request {
        Request::HostFiles { after } => rules.to(|broker, call| {
            let host = host_of(&broker.shared, &call)?;
            Ok(Response::HostFiles(broker.host_files.page(&host, after)).into())
        }),
        Request::SetHostFile { name, content } => rules.to(|broker, call| {
            let host = host_of(&broker.shared, &call)?;
            broker.host_files.set(&host, name, content).map(|()| Response::Done.into())
        }),
        other => return Routed::Elsewhere(other),
    })
}

fn host_of(shared: &Shared, call: &Call<'_, impl Host>) -> Result<String, Refusal> {
    let host = shared.sessions.host(call.id).map(ToString::to_string);
    host.ok_or_else(|| refuse(ENODEV, "the program does not run as a host of a fabric: `weft run --host HOST` does"))
}

/// The files of all hosts.
#[derive(Debug, Default)]
pub(super) struct HostFiles {
    of: BTreeMap<String, BTreeMap<String, String>>,
    /// Bytes of names and contents.
    bytes: usize,
}

impl HostFiles {
    fn page(&self, host: &str, after: Option<String>) -> Vec<HostFile> {
        let Some(files) = self.of.get(host) else { return Vec::new() };
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let mut room = PAGE_BYTES_MAX;
        let fits = |(name, content): &(&String, &String)| {
            let left = room.checked_sub(name.len() + content.len());
            room = left.unwrap_or_default();
            left.is_some()
        };
        let page = files.range((from, Bound::Unbounded)).take_while(fits);
        page.map(|(name, content)| HostFile { name: name.clone(), content: content.clone() }).collect()
    }

    fn set(&mut self, host: &str, name: String, content: Option<String>) -> Result<(), Refusal> {
        let Some(content) = content else {
            self.remove(host, &name);
            return Ok(());
        };
        if name.is_empty() || name.len() > HOST_FILE_NAME_BYTES_MAX {
            let text = format!("the name of a host's file has 1 to {HOST_FILE_NAME_BYTES_MAX} bytes");
            return Err(refuse(EINVAL, text));
        }
        if content.len() > HOST_FILE_BYTES_MAX {
            let text = format!("{name} has {} bytes: at most {HOST_FILE_BYTES_MAX} are kept", content.len());
            return Err(refuse(ENOSPC, text));
        }
        let files = self.of.get(host);
        let old = files.and_then(|files| Some(name.len() + files.get(&name)?.len()));
        if old.is_none() && files.is_some_and(|files| files.len() >= HOST_FILES_MAX) {
            let text = format!("{host} has {HOST_FILES_MAX} files already: delete one first");
            return Err(refuse(ENOSPC, text));
        }
        let bytes = self.bytes - old.unwrap_or_default() + name.len() + content.len();
        if bytes > HOST_FILES_BYTES_MAX {
            let text = format!("the hosts' files would exceed {HOST_FILES_BYTES_MAX} bytes: delete some first");
            return Err(refuse(ENOSPC, text));
        }
        self.bytes = bytes;
        self.of.entry(host.to_owned()).or_default().insert(name, content);
        Ok(())
    }

    fn remove(&mut self, host: &str, name: &str) {
        let Some(files) = self.of.get_mut(host) else { return };
        if let Some(content) = files.remove(name) {
            self.bytes -= name.len() + content.len();
        }
        if files.is_empty() {
            self.of.remove(host);
        }
    }
}
