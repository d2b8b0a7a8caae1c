//! Requests about paths over the InfiniBand fabric.

use super::Client;
use crate::{GroupMember, GroupReply, PathReply, PathRequest, PathTraffic, Request, RequestError, Response};

impl Client {
    /// Asks whether packets arrive over a path, and subscribes to changes.
    pub fn path(&mut self, request: PathRequest) -> Result<PathReply, RequestError> {
        match self.request(Request::Path(request))? {
            Response::Path(reply) => Ok(reply),
            _ => Err(RequestError::Protocol),
        }
    }

    /// Reports traffic.
    pub fn path_traffic(&mut self, traffic: Vec<PathTraffic>) -> Result<(), RequestError> {
        match self.request(Request::PathTraffic(traffic))? {
            Response::Done => Ok(()),
            _ => Err(RequestError::Protocol),
        }
    }

    /// Asks which processes a path to a group leads to, and subscribes to changes. The path's slot is 0.
    pub fn group_path(&mut self, request: PathRequest) -> Result<GroupReply, RequestError> {
        match self.request(Request::GroupPath(request))? {
            Response::Group(reply) => Ok(reply),
            _ => Err(RequestError::Protocol),
        }
    }

    /// Reports that the program starts or stops listening to a group.
    pub fn set_group_member(&mut self, member: GroupMember, listens: bool) -> Result<(), RequestError> {
        match self.request(Request::GroupMember { member, listens })? {
            Response::Done => Ok(()),
            _ => Err(RequestError::Protocol),
        }
    }
}
