//! Requests about the files that the daemon keeps for the program's host.

use super::Client;
use crate::limits::HOST_FILES_MAX;
use crate::{HostFile, Request, RequestError, Response};

impl Client {
    /// Returns all files of the program's host, in the order of their names.
    pub fn host_files(&mut self) -> Result<Vec<HostFile>, RequestError> {
        let mut all: Vec<HostFile> = Vec::new();
        loop {
            let after = all.last().map(|last| last.name.clone());
            let Response::HostFiles(page) = self.request(Request::HostFiles { after })? else {
                return Err(RequestError::Protocol);
            };
            if page.is_empty() || all.len() > HOST_FILES_MAX {
                return Ok(all);
            }
            all.extend(page);
        }
    }

    /// Writes a file of the program's host.
    pub fn write_host_file(&mut self, name: &str, content: &str) -> Result<(), RequestError> {
        self.done(Request::SetHostFile { name: name.to_owned(), content: Some(content.to_owned()) })
    }

    /// Removes a file of the program's host, if it is there.
    pub fn remove_host_file(&mut self, name: &str) -> Result<(), RequestError> {
        self.done(Request::SetHostFile { name: name.to_owned(), content: None })
    }
}
