//! Connection profiles of a host's IPoIB interfaces, for `nmcli` and `weft host apply`: their sources (key files of
//! NetworkManager, variables of Red Hat's system role, udev rules), plans, and what carries plans out.

pub mod activate;
pub mod address;
pub mod inert;
mod kernel_state;
mod keyfile;
pub mod nmconnection;
pub mod plan;
pub mod profile;
pub mod properties;
pub mod role;
pub mod session;
pub mod step;
mod text_file;
pub mod udev;
mod yaml;

pub use keyfile::BYTES_MAX as KEYFILE_BYTES_MAX;
pub use text_file::read_text;
pub use yaml::BYTES_MAX as YAML_BYTES_MAX;
