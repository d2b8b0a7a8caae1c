//! Linux's NFS server over RDMA in the guest, with Weft's clients on the host: the mount by FUSE, and the relay, which
//! carries Linux's own client in the guest over TCP and back over RDMA.

use anyhow::{Context, Result, ensure};
use weft_interop::proc::Proc;
use weft_interop::{Who, guest_peer, product};

use super::{LIMIT, NFS_PORT, STARTS_WITHIN, Sides};

/// Port of the relay.
pub const RELAY_PORT: u16 = 20500;

impl Sides {
    /// Lets the guest's server listen for RDMA.
    pub fn start_nfsd_over_rdma(&self) -> Result<()> {
        self.start_nfsd()?;
        self.guest(&format!(
            "grep -q '^rdma {NFS_PORT}' /proc/fs/nfsd/portlist || echo 'rdma {NFS_PORT}' > /proc/fs/nfsd/portlist
             chmod 1777 /srv"
        ))
        .map(drop)
    }

    /// Stops the guest's server, which ends its connections and forgets its clients, and starts it again after some seconds.
    pub fn restart_nfsd(&self) -> Result<()> {
        self.guest(&format!(
            "echo 0 > /proc/fs/nfsd/threads; sleep 4; echo '+3 +4 +4.0 +4.1' > /proc/fs/nfsd/versions
             echo 'tcp 2049' > /proc/fs/nfsd/portlist; echo 'rdma {NFS_PORT}' > /proc/fs/nfsd/portlist
             echo 4 > /proc/fs/nfsd/threads"
        ))
        .map(drop)
    }

    /// Mounts the guest's directory on the host by FUSE.
    pub fn mount_linux(&self, options: &str, mebibytes: u32) -> Result<()> {
        self.start_nfsd_over_rdma()?;
        let (weft, server) = (product::weft()?.display().to_string(), guest_peer::GUEST_V4);
        let dir = self.peer.lab().file("linux");
        std::fs::create_dir_all(&dir)?;
        let script = format!(
            "D={dir}; mkdir -p $D/m $D/from; cd $D/from; : > empty; head -c 4097 /dev/urandom > small
             head -c {} /dev/urandom > large; ln -sf large link
             {weft} nfs mount {server}:/srv $D/m -o {options}; trap \"umount -l $D/m\" EXIT
             cp -a $D/from $D/m/tree; diff -r $D/from $D/m/tree; mkdir $D/m/many; cd $D/m/many
             for n in $(seq 300); do : > \"name of some length $n\"; done; test $(ls -l | grep -c length) = 300
             mv 'name of some length 1' other; rm other; cd $D; {weft} nfs umount $D/m
             {weft} nfs mount {server}:/srv $D/m -o {options}; diff -r $D/from $D/m/tree; rm -r $D/m/tree $D/m/many
             {weft} nfs umount $D/m; trap - EXIT; echo compared",
            mebibytes << 20,
            dir = dir.display(),
        );
        let lab = self.peer.lab();
        let line = lab.bare(lab.client(), Who::Root, &["bash", "-ec", &script]);
        let ended = lab.start_line(&line, &[])?.wait(LIMIT).success().with_context(|| self.kernel_log())?;
        ensure!(ended.text.contains("compared"), "{}", ended.text);
        Ok(())
    }

    /// Starts the relay.
    pub fn relay(&self, env: &[(&str, &str)]) -> Result<Proc> {
        let lab = self.peer.lab();
        let weft = product::weft()?.display().to_string();
        let listen = format!("{}:{RELAY_PORT}", self.address());
        let words = [&weft[..], "nfs", "relay", guest_peer::GUEST_V4, "--listen", &listen];
        let mut relay = lab.start_line(&lab.bare(lab.client(), Who::Root, &words), env)?;
        let listens = relay.wait_until(STARTS_WITHIN, |proc| proc.text().contains("listening on"));
        ensure!(listens, "the relay does not listen: {}", relay.text());
        Ok(relay)
    }
}
