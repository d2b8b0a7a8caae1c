//! Subnet administration: the questions of hosts and their answers, one file a record.
