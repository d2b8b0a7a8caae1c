//! Rules of objects: lifetimes, states and attributes.

use crate::rule::rules;

rules! { OBJECTS:
    OBJECT_LEAKED = "object-leaked", Warning,
        "The program ends without destroying an object.",
        "ibv_close_device(3)",
        "Destroy objects in the reverse order of their creation.";
    DESTROY_BUSY = "destroy-busy", Error,
        "The program destroys an object that other objects use.",
        "ibv_dealloc_pd(3), ibv_destroy_cq(3), ibv_destroy_srq(3)",
        "Destroy the users first.";
    AH_IN_USE = "ah-in-use", Warning,
        "The program destroys an address handle before the completion of a request that uses it.",
        "ibv_post_send(3), notes",
        "Poll the request's completion before ibv_destroy_ah.";
    DESTROYED_TWICE = "destroyed-twice", Error,
        "The program destroys an object for the second time.",
        "The manual page of the call; IBA vol. 1, 11.2",
        "Clear the pointer when the object is destroyed.";
    USE_AFTER_DESTROY = "use-after-destroy", Error,
        "The program uses a destroyed object.",
        "The manual page of the call; IBA vol. 1, 11.2",
        "Keep the object until its last use.";
    WRONG_TRANSITION = "wrong-transition", Error,
        "ibv_modify_qp asks for a transition that does not exist.",
        "ibv_modify_qp(3); IBA vol. 1, 10.3.1",
        "Go through RESET, INIT, RTR and RTS in this order.";
    ATTRIBUTE_MISSING = "attribute-missing", Error,
        "ibv_modify_qp lacks an attribute that the transition requires.",
        "ibv_modify_qp(3); IBA vol. 1, 11.2.4.2",
        "Add the attribute to attr_mask.";
    ATTRIBUTE_EXTRA = "attribute-extra", Error,
        "ibv_modify_qp sets an attribute that the transition does not allow.",
        "ibv_modify_qp(3); IBA vol. 1, 11.2.4.2",
        "Remove the attribute from attr_mask.";
    GID_INDEX_EMPTY = "gid-index-empty", Error,
        "An address vector names an empty entry of the GID table.",
        "ibv_query_gid(3), ibv_modify_qp(3), ibv_create_ah(3)",
        "Choose sgid_index from the entries that ibv_query_gid_table returns.";
    PATH_MTU_EXCEEDS_PORT = "path-mtu-exceeds-port", Error,
        "The path MTU of a queue pair exceeds the active MTU of its port.",
        "ibv_modify_qp(3), ibv_query_port(3)",
        "Use at most active_mtu of ibv_query_port.";
    TIMEOUT_ZERO = "timeout-zero", Warning,
        "The timeout of a queue pair is 0: it waits forever for the acknowledgement of a lost packet.",
        "ibv_modify_qp(3); IBA vol. 1, 9.9.2.1.1",
        "Set timeout to 14 (67 ms) or another value above 0.";
    RETRY_ZERO = "retry-zero", Warning,
        "The retry count of a queue pair is 0: the first lost packet breaks the connection.",
        "ibv_modify_qp(3); IBA vol. 1, 9.9.2.1.1",
        "Set retry_cnt to 7.";
    QP_CAP_BEYOND_DEVICE = "qp-cap-beyond-device", Error,
        "A queue pair is requested with more than the device offers.",
        "ibv_create_qp(3), ibv_query_device(3)",
        "Use at most max_qp_wr and max_sge of ibv_query_device.";
}
