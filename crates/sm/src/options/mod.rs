//! Configuration: opensm.conf with every option of OpenSM, and the files that it names.
