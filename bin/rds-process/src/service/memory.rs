//! Memory of programs: regions that they offer to peers, and the local memory of their operations. A program's pages are in
//! its page file, which this process maps as far as it needs. Keys are valid in one protection domain for each device.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::net::Ipv4Addr;

use rustix::io::Errno;
use weft_abi_types::{IBV_ACCESS_LOCAL_WRITE, IBV_ACCESS_REMOTE_READ, IBV_ACCESS_REMOTE_WRITE, RDMA_PS_TCP};
use weft_client::rdmacm::{CmId, EventChannel, lookup};
use weft_client::verbs::{Buffer, Context, Pd, Region};
use weft_rdma_service::Pool;
use weft_rds::limits::{REGIONS_BYTES_MAX, REGIONS_MAX};
use weft_rds::local::{LocalOperation, LocalPiece, OfferedRegion};
use weft_rds::{Direction, OperationId, RdmaOperation, RdmaStatus, SocketKey};

/// Number of a device in the table.
pub type DeviceIndex = usize;

/// A device, open as long as the service runs.
#[derive(Debug)]
struct Device {
    pool: Pool,
    pd: Pd,
}

/// Region that a socket offers.
#[derive(Debug)]
struct Offer {
    owner: SocketKey,
    is_used_once: bool,
    region: Region,
}

/// Local memory of an operation.
#[derive(Debug)]
pub enum LocalMemory {
    /// Data of a WRITE, copied when the program sent it.
    Data(Buffer),
    /// The program's pages that a READ fills.
    Pages(Vec<Region>),
}

/// An operation, from the program's call until no queue pair uses its memory any more.
#[derive(Debug)]
pub struct Transfer {
    /// The operation.
    pub operation: RdmaOperation,
    /// Its memory.
    pub memory: LocalMemory,
    device: DeviceIndex,
    /// Work requests that have not completed.
    left: usize,
}

/// The memory.
#[derive(Default, Debug)]
pub struct ProgramMemory {
    // Dropped before their domains' devices.
    offers: BTreeMap<(DeviceIndex, u32), Offer>,
    transfers: BTreeMap<OperationId, Transfer>,
    devices: Vec<Device>,
    /// Bytes of all offers.
    offered_bytes: u64,
    next: OperationId,
}

impl ProgramMemory {
    /// Returns the device that has an address.
    pub fn device_of(&mut self, channel: &EventChannel, ip: Ipv4Addr) -> Option<DeviceIndex> {
        let address = lookup(Some(&ip.to_string()), Some("0"), 0).ok()?;
        let id = CmId::new(channel, RDMA_PS_TCP).ok()?;
        id.bind(&address).ok()?;
        self.device(&id.context().ok()?).ok()
    }

    fn device(&mut self, context: &Context) -> io::Result<DeviceIndex> {
        if let Some(known) = self.devices.iter().position(|device| device.pd.context().is_same(context)) {
            return Ok(known);
        }
        let pd = Pd::new(context)?;
        self.devices.push(Device { pool: Pool::new(&pd), pd });
        Ok(self.devices.len() - 1)
    }

    /// Returns the protection domain of a connection's device.
    ///
    /// # Errors
    /// The device has no more.
    pub fn domain(&mut self, context: &Context) -> io::Result<Pd> {
        let index = self.device(context)?;
        self.devices.get(index).map(|device| device.pd.clone()).ok_or(io::ErrorKind::NotFound.into())
    }

    /// Offers a region of a program's pages. Returns its key.
    ///
    /// # Errors
    /// There are too many, or the pages cannot be registered.
    pub fn offer(
        &mut self,
        owner: SocketKey,
        device: DeviceIndex,
        wanted: &OfferedRegion,
        pages: &File,
    ) -> Result<u32, Errno> {
        let length = wanted.memory.length;
        if self.offers.len() >= REGIONS_MAX || self.offered_bytes + length > REGIONS_BYTES_MAX {
            return Err(Errno::AGAIN);
        }
        let pd = &self.devices.get(device).ok_or(Errno::NODEV)?.pd;
        let access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;
        let region = Region::new(pd, pages, wanted.memory.address, length as usize, access)
            .map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::INVAL))?;
        let key = region.rkey();
        self.offered_bytes += length;
        self.offers.insert((device, key), Offer { owner, is_used_once: wanted.is_used_once, region });
        Ok(key)
    }

    /// Whether a socket offers a region of this key.
    pub fn offers(&self, owner: SocketKey, device: DeviceIndex, key: u32) -> bool {
        self.offers.get(&(device, key)).is_some_and(|offer| offer.owner == owner)
    }

    /// Ends a region. Returns whether the socket offered it.
    pub fn withdraw(&mut self, owner: SocketKey, device: DeviceIndex, key: u32) -> bool {
        if !self.offers(owner, device, key) {
            return false;
        }
        if let Some(offer) = self.offers.remove(&(device, key)) {
            self.offered_bytes -= offer.region.len() as u64;
        }
        true
    }

    /// A peer has used a region: it ends, if it was offered for one use.
    pub fn used(&mut self, owner: SocketKey, device: DeviceIndex, key: u32) {
        if self.offers.get(&(device, key)).is_some_and(|offer| offer.is_used_once) {
            self.withdraw(owner, device, key);
        }
    }

    /// Ends all regions of a socket.
    pub fn close(&mut self, owner: SocketKey) {
        let of_owner = |(_, offer): &(&(DeviceIndex, u32), &Offer)| offer.owner == owner;
        let keys: Vec<_> = self.offers.iter().filter(of_owner).map(|(key, _)| *key).collect();
        for (device, key) in keys {
            self.withdraw(owner, device, key);
        }
    }

    /// Registers the local memory of an operation. `data` is that of a WRITE, `pages` the page file for that of a READ.
    ///
    /// # Errors
    /// The memory cannot be registered, or it is missing.
    pub fn begin(
        &mut self,
        device: DeviceIndex,
        wanted: &LocalOperation,
        data: &[u8],
        pages: Option<&File>,
    ) -> io::Result<RdmaOperation> {
        let entry = self.devices.get_mut(device).ok_or(io::ErrorKind::NotFound)?;
        let memory = match wanted.direction {
            Direction::Write => {
                let block = entry.pool.take(data.len())?;
                block.write(0, data);
                LocalMemory::Data(block)
            }
            Direction::Read => {
                // On iWARP the peer's response writes to tagged memory (RFC 5040 §5.2).
                let remote = if entry.pd.context().is_iwarp() { IBV_ACCESS_REMOTE_WRITE } else { 0 };
                let (pages, access) = (pages.ok_or(io::ErrorKind::InvalidData)?, IBV_ACCESS_LOCAL_WRITE | remote);
                let region =
                    |piece: &LocalPiece| Region::new(&entry.pd, pages, piece.address, piece.length as usize, access);
                LocalMemory::Pages(wanted.pieces.iter().map(region).collect::<io::Result<_>>()?)
            }
        };
        self.next += 1;
        let operation = RdmaOperation {
            id: self.next,
            direction: wanted.direction,
            key: wanted.key,
            address: wanted.address,
            length: wanted.length,
            token: wanted.token,
            options: wanted.options,
        };
        self.transfers.insert(operation.id, Transfer { operation, memory, device, left: 0 });
        Ok(operation)
    }

    /// Returns an operation whose work requests are being posted.
    pub fn post(&mut self, id: OperationId) -> Option<&Transfer> {
        let transfer = self.transfers.get_mut(&id)?;
        transfer.left = match &transfer.memory {
            LocalMemory::Data(_) => 1,
            LocalMemory::Pages(regions) => regions.len(),
        };
        Some(transfer)
    }

    /// A work request of an operation has completed. Returns the operation if it was the last.
    pub fn completed(&mut self, id: OperationId) -> Option<RdmaOperation> {
        let transfer = self.transfers.get_mut(&id)?;
        transfer.left = transfer.left.saturating_sub(1);
        (transfer.left == 0).then_some(transfer.operation)
    }

    /// Returns an operation by its name.
    pub fn operation(&self, id: OperationId) -> Option<RdmaOperation> {
        self.transfers.get(&id).map(|transfer| transfer.operation)
    }

    /// No queue pair uses the memory of an operation any more.
    pub fn end(&mut self, id: OperationId) {
        let Some(transfer) = self.transfers.remove(&id) else { return };
        if let (LocalMemory::Data(block), Some(device)) = (transfer.memory, self.devices.get_mut(transfer.device)) {
            device.pool.give(block);
        }
    }

    /// Carries out an operation between two sockets of this host: copies between its memory and the region that a key names
    /// on the other socket's device. The operation is over then.
    pub fn copy_locally(&mut self, operation: &RdmaOperation, device: Option<DeviceIndex>) -> RdmaStatus {
        let offer = device.and_then(|device| self.offers.get(&(device, operation.key)));
        let (Some(offer), Some(transfer)) = (offer, self.transfers.get(&operation.id)) else {
            self.end(operation.id);
            return RdmaStatus::RemoteError;
        };
        let mut bytes = vec![0; operation.length as usize];
        let is_within = match &transfer.memory {
            LocalMemory::Data(block) => {
                block.read(0, &mut bytes);
                offer.region.write(operation.address, &bytes)
            }
            LocalMemory::Pages(regions) => {
                let is_within = offer.region.read(operation.address, &mut bytes);
                let mut rest = &bytes[..];
                for region in regions.iter().filter(|_| is_within) {
                    let (piece, after) = rest.split_at(region.len().min(rest.len()));
                    region.write(region.first_address(), piece);
                    rest = after;
                }
                is_within
            }
        };
        self.end(operation.id);
        if is_within { RdmaStatus::Success } else { RdmaStatus::RemoteError }
    }
}
