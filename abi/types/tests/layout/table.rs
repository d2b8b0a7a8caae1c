//! Every structure, with the fields that the C header names. `a as b` means our field `a`, which C calls `b`, or, for
//! an anonymous union, its first member.

use crate::Layout;

/// Measures the whole table.
#[rustfmt::skip]
pub fn layouts() -> Vec<Layout> {
    layouts! {
        struct ibv_global_route { dgid, flow_label, sgid_index, hop_limit, traffic_class }
        struct ibv_grh { version_tclass_flow, paylen, next_hdr, hop_limit, sgid, dgid }
        struct ibv_ah_attr { grh, dlid, sl, src_path_bits, static_rate, is_global, port_num }
        struct ibv_ah { context, pd, handle }
        struct _ibv_device_ops { _dummy1, _dummy2 }
        struct ibv_device { _ops, node_type, transport_type, name, dev_name, dev_path, ibdev_path }
        struct ibv_context_ops { _compat_query_device, _compat_query_port, _compat_alloc_pd, _compat_dealloc_pd, _compat_reg_mr, _compat_rereg_mr, _compat_dereg_mr, alloc_mw, bind_mw, dealloc_mw, _compat_create_cq, poll_cq, req_notify_cq, _compat_cq_event, _compat_resize_cq, _compat_destroy_cq, _compat_create_srq, _compat_modify_srq, _compat_query_srq, _compat_destroy_srq, post_srq_recv, _compat_create_qp, _compat_query_qp, _compat_modify_qp, _compat_destroy_qp, post_send, post_recv, _compat_create_ah, _compat_destroy_ah, _compat_attach_mcast, _compat_detach_mcast, _compat_async_event }
        struct ibv_context { device, ops, cmd_fd, async_fd, num_comp_vectors, mutex, abi_compat }
        struct ibv_values_ex { comp_mask, raw_clock }
        struct verbs_context { free_buf, alloc_buf, dm_export_dmabuf_fd, reg_mr_ex, dealloc_dmah, alloc_dmah, query_port, advise_mr, alloc_null_mr, read_counters, attach_counters_point_flow, create_counters, destroy_counters, reg_dm_mr, alloc_dm, free_dm, modify_flow_action_esp, destroy_flow_action, create_flow_action_esp, modify_qp_rate_limit, alloc_parent_domain, dealloc_td, alloc_td, modify_cq, post_srq_ops, destroy_rwq_ind_table, create_rwq_ind_table, destroy_wq, modify_wq, create_wq, query_rt_values, create_cq_ex, priv_ as priv, query_device_ex, ibv_destroy_flow, ABI_placeholder2, ibv_create_flow, ABI_placeholder1, open_qp, create_qp_ex, get_srq_num, create_srq_ex, open_xrcd, close_xrcd, _ABI_placeholder3, sz, context }
        struct ibv_comp_cntr_caps { max_value, max_counters, supported_qp_attach_ops }
        struct ibv_comp_cntr { context, handle }
        struct ibv_comp_cntr_init_attr { comp_mask, type_ as type, flags }
        struct ibv_qp_attach_comp_cntr_attr { comp_mask, op_mask }
        struct ibv_counters_init_attr { comp_mask }
        struct ibv_counters { context }
        struct ibv_counter_attach_attr { counter_desc, index, comp_mask }
        struct ibv_comp_channel { context, fd, refcnt }
        struct ibv_cq { context, channel, cq_context, handle, cqe, mutex, cond, comp_events_completed, async_events_completed }
        struct ibv_poll_cq_attr { comp_mask }
        struct ibv_wc_tm_info { tag, priv_ as priv }
        struct ibv_cq_ex { context, channel, cq_context, handle, cqe, mutex, cond, comp_events_completed, async_events_completed, comp_mask, status, wr_id, start_poll, next_poll, end_poll, read_opcode, read_vendor_err, read_byte_len, read_imm_data, read_qp_num, read_src_qp, read_wc_flags, read_slid, read_sl, read_dlid_path_bits, read_completion_ts, read_cvlan, read_flow_tag, read_tm_info, read_completion_wallclock_ns }
        struct ibv_moderate_cq { cq_count, cq_period }
        struct ibv_modify_cq_attr { attr_mask, moderate }
        struct ibv_cq_init_attr_ex { cqe, cq_context, channel, comp_vector, wc_flags, comp_mask, flags, parent_domain }
        struct ibv_device_attr { fw_ver, node_guid, sys_image_guid, max_mr_size, page_size_cap, vendor_id, vendor_part_id, hw_ver, max_qp, max_qp_wr, device_cap_flags, max_sge, max_sge_rd, max_cq, max_cqe, max_mr, max_pd, max_qp_rd_atom, max_ee_rd_atom, max_res_rd_atom, max_qp_init_rd_atom, max_ee_init_rd_atom, atomic_cap, max_ee, max_rdd, max_mw, max_raw_ipv6_qp, max_raw_ethy_qp, max_mcast_grp, max_mcast_qp_attach, max_total_mcast_qp_attach, max_ah, max_fmr, max_map_per_fmr, max_srq, max_srq_wr, max_srq_sge, max_pkeys, local_ca_ack_delay, phys_port_cnt }
        struct ibv_query_device_ex_input { comp_mask }
        struct ibv_odp_caps { general_caps, per_transport_caps }
        struct ibv_tso_caps { max_tso, supported_qpts }
        struct ibv_rss_caps { supported_qpts, max_rwq_indirection_tables, max_rwq_indirection_table_size, rx_hash_fields_mask, rx_hash_function }
        struct ibv_packet_pacing_caps { qp_rate_limit_min, qp_rate_limit_max, supported_qpts }
        struct ibv_tm_caps { max_rndv_hdr_size, max_num_tags, flags, max_ops, max_sge }
        struct ibv_cq_moderation_caps { max_cq_count, max_cq_period }
        struct ibv_pci_atomic_caps { fetch_add, swap, compare_swap }
        struct ibv_device_attr_ex { orig_attr, comp_mask, odp_caps, completion_timestamp_mask, hca_core_clock, device_cap_flags_ex, tso_caps, rss_caps, max_wq_type_rq, packet_pacing_caps, raw_packet_caps, tm_caps, cq_mod_caps, max_dm_size, pci_atomic_caps, xrc_odp_caps, phys_port_cnt_ex }
        struct ibv_alloc_dm_attr { length, log_align_req, comp_mask }
        struct ibv_dm { context, memcpy_to_dm, memcpy_from_dm, comp_mask, handle }
        struct ibv_dmah { context }
        struct ibv_dmah_init_attr { comp_mask, cpu_id, ph, tph_mem_type }
        struct ibv_async_event { element, event_type }
        struct ibv_flow_eth_filter { dst_mac, src_mac, ether_type, vlan_tag }
        struct ibv_flow_spec_eth { type_ as type, size, val, mask }
        struct ibv_flow_ipv4_filter { src_ip, dst_ip }
        struct ibv_flow_spec_ipv4 { type_ as type, size, val, mask }
        struct ibv_flow_ipv4_ext_filter { src_ip, dst_ip, proto, tos, ttl, flags }
        struct ibv_flow_spec_ipv4_ext { type_ as type, size, val, mask }
        struct ibv_flow_ipv6_filter { src_ip, dst_ip, flow_label, next_hdr, traffic_class, hop_limit }
        struct ibv_flow_spec_ipv6 { type_ as type, size, val, mask }
        struct ibv_flow_esp_filter { spi, seq }
        struct ibv_flow_spec_esp { type_ as type, size, val, mask }
        struct ibv_flow_tcp_udp_filter { dst_port, src_port }
        struct ibv_flow_spec_tcp_udp { type_ as type, size, val, mask }
        struct ibv_flow_gre_filter { c_ks_res0_ver, protocol, key }
        struct ibv_flow_spec_gre { type_ as type, size, val, mask }
        struct ibv_flow_mpls_filter { label }
        struct ibv_flow_spec_mpls { type_ as type, size, val, mask }
        struct ibv_flow_tunnel_filter { tunnel_id }
        struct ibv_flow_spec_tunnel { type_ as type, size, val, mask }
        struct ibv_flow_spec_action_tag { type_ as type, size, tag_id }
        struct ibv_flow_spec_action_drop { type_ as type, size }
        struct ibv_flow_spec_action_handle { type_ as type, size, action }
        struct ibv_flow_spec_counter_action { type_ as type, size, counters }
        struct ibv_flow_spec { spec as hdr }
        struct ibv_flow_attr { comp_mask, type_ as type, size, priority, num_of_specs, port, flags }
        struct ibv_flow { comp_mask, context, handle }
        struct ib_uverbs_flow_action_esp_keymat_aes_gcm { iv, iv_algo, salt, icv_len, key_len, aes_key }
        struct ib_uverbs_flow_action_esp_replay_bmp { size }
        struct ib_uverbs_flow_action_esp_encap { val as val_ptr, next as next_ptr, len, type_ as type }
        struct ib_uverbs_flow_action_esp { spi, seq, tfc_pad, flags, hard_limit_pkts }
        struct ibv_flow_action { context }
        struct ibv_flow_action_esp_attr { esp_attr, keymat_proto, keymat_len, keymat_ptr, replay_proto, replay_len, replay_ptr, esp_encap, comp_mask, esn }
        union ibv_gid { raw, global }
        struct ibv_gid_entry { gid, gid_index, port_num, gid_type, ndev_ifindex }
        struct ibv_mw_bind_info { mr, addr, length, mw_access_flags }
        struct ibv_mr { context, pd, addr, length, handle, lkey, rkey }
        struct ibv_mr_init_attr { length, access, comp_mask, iova, addr, fd, fd_offset, dmah, buf }
        struct ibv_mw { context, pd, rkey, handle, type_ as type }
        struct ibv_pd { context, handle }
        struct ibv_td_init_attr { comp_mask }
        struct ibv_td { context }
        struct ibv_parent_domain_init_attr { pd, td, comp_mask, alloc, free, pd_context }
        struct ibv_port_attr { state, max_mtu, active_mtu, gid_tbl_len, port_cap_flags, max_msg_sz, bad_pkey_cntr, qkey_viol_cntr, pkey_tbl_len, lid, sm_lid, lmc, max_vl_num, sm_sl, subnet_timeout, init_type_reply, active_width, active_speed, phys_state, link_layer, flags, port_cap_flags2, active_speed_ex }
        struct ibv_qp_cap { max_send_wr, max_recv_wr, max_send_sge, max_recv_sge, max_inline_data }
        struct ibv_qp_init_attr { qp_context, send_cq, recv_cq, srq, cap, qp_type, sq_sig_all }
        struct ibv_rx_hash_conf { rx_hash_function, rx_hash_key_len, rx_hash_key, rx_hash_fields_mask }
        struct ibv_qp_init_attr_ex { qp_context, send_cq, recv_cq, srq, cap, qp_type, sq_sig_all, comp_mask, pd, xrcd, create_flags, max_tso_header, rwq_ind_tbl, rx_hash_conf, source_qpn, send_ops_flags }
        struct ibv_qp_open_attr { comp_mask, qp_num, xrcd, qp_context, qp_type }
        struct ibv_qp_attr { qp_state, cur_qp_state, path_mtu, path_mig_state, qkey, rq_psn, sq_psn, dest_qp_num, qp_access_flags, cap, ah_attr, alt_ah_attr, pkey_index, alt_pkey_index, en_sqd_async_notify, sq_draining, max_rd_atomic, max_dest_rd_atomic, min_rnr_timer, port_num, timeout, retry_cnt, rnr_retry, alt_port_num, alt_timeout, rate_limit }
        struct ibv_qp_rate_limit_attr { rate_limit, max_burst_sz, typical_pkt_sz, comp_mask }
        struct ibv_qp { context, qp_context, pd, send_cq, recv_cq, srq, handle, qp_num, state, qp_type, mutex, cond, events_completed }
        struct ibv_ece { vendor_id, options, comp_mask }
        struct ibv_qp_ex { qp_base, comp_mask, wr_id, wr_flags, wr_atomic_cmp_swp, wr_atomic_fetch_add, wr_bind_mw, wr_local_inv, wr_rdma_read, wr_rdma_write, wr_rdma_write_imm, wr_send, wr_send_imm, wr_send_inv, wr_send_tso, wr_set_ud_addr, wr_set_xrc_srqn, wr_set_inline_data, wr_set_inline_data_list, wr_set_sge, wr_set_sge_list, wr_start, wr_complete, wr_abort, wr_atomic_write, wr_flush }
        struct ibv_srq_attr { max_wr, max_sge, srq_limit }
        struct ibv_srq_init_attr { srq_context, attr }
        struct ibv_tm_cap { max_num_tags, max_ops }
        struct ibv_srq_init_attr_ex { srq_context, attr, comp_mask, srq_type, pd, xrcd, cq, tm_cap }
        struct ibv_srq { context, srq_context, pd, handle, mutex, cond, events_completed }
        struct ibv_wc { wr_id, status, opcode, vendor_err, byte_len, imm as imm_data, qp_num, src_qp, wc_flags, pkey_index, slid, sl, dlid_path_bits }
        struct ibv_wq_init_attr { wq_context, wq_type, max_wr, max_sge, pd, cq, comp_mask, create_flags }
        struct ibv_wq_attr { attr_mask, wq_state, curr_wq_state, flags, flags_mask }
        struct ibv_rwq_ind_table { context, ind_tbl_handle, ind_tbl_num, comp_mask }
        struct ibv_rwq_ind_table_init_attr { log_ind_tbl_size, ind_tbl, comp_mask }
        struct ibv_wq { context, wq_context, pd, cq, wq_num, handle, state, wq_type, post_recv, mutex, cond, events_completed, comp_mask }
        struct ibv_data_buf { addr, length }
        struct ibv_sge { addr, length, lkey }
        struct ibv_fd_arr { arr, count }
        struct ibv_send_wr { wr_id, next, sg_list, num_sge, opcode, send_flags, imm as imm_data, wr, qp_type, op as bind_mw }
        struct ibv_recv_wr { wr_id, next, sg_list, num_sge }
        struct ibv_ops_wr { wr_id, next, opcode, flags, tm }
        struct ibv_mw_bind { wr_id, send_flags, bind_info }
        struct ibv_xrcd_init_attr { comp_mask, fd, oflags }
        struct ibv_xrcd { context }
        struct ibv_sa_path_rec { dgid, sgid, dlid, slid, raw_traffic, flow_label, hop_limit, traffic_class, reversible, numb_path, pkey, sl, mtu_selector, mtu, rate_selector, rate, packet_life_time_selector, packet_life_time, preference }
        struct ibv_path_record { service_id, dgid, sgid, dlid, slid, flowlabel_hoplimit, tclass, reversible_numpath, pkey, qosclass_sl, mtu, rate, packetlifetime, preference, reserved }
        struct ibv_path_data { flags, reserved, path }
        struct rdma_ib_addr { sgid, dgid, pkey }
        struct rdma_addr { src as src_addr, dst as dst_addr, ibaddr as addr }
        struct rdma_route { addr, path_rec, num_paths }
        struct rdma_event_channel { fd }
        struct rdma_cm_id { verbs, channel, context, qp, route, ps, port_num, event, send_cq_channel, send_cq, recv_cq_channel, recv_cq, srq, pd, qp_type }
        struct rdma_conn_param { private_data, private_data_len, responder_resources, initiator_depth, flow_control, retry_count, rnr_retry_count, srq, qp_num }
        struct rdma_ud_param { private_data, private_data_len, ah_attr, qp_num, qkey }
        struct rdma_cm_event { id, listen_id, event, status, param }
        struct rdma_addrinfo { ai_flags, ai_family, ai_qp_type, ai_port_space, ai_src_len, ai_dst_len, ai_src_addr, ai_dst_addr, ai_src_canonname, ai_dst_canonname, ai_route_len, ai_route, ai_connect_len, ai_connect, ai_next }
        struct rdma_cm_join_mc_attr_ex { comp_mask, join_flags, addr }
        struct ib_mad_addr { qpn, qkey, lid, sl, path_bits, grh_present, gid_index, hop_limit, traffic_class, gid, flow_label, pkey_index, reserved }
        struct ib_user_mad { agent_id, status, timeout_ms, retries, length, addr }
        struct umad_port { ca_name, portnum, base_lid, lmc, sm_lid, sm_sl, state, phys_state, rate, capmask, gid_prefix, port_guid, pkeys_size, pkeys, link_layer }
        struct umad_ca { ca_name, node_type, numports, fw_ver, ca_type, hw_ver, node_guid, system_guid, ports }
        struct umad_ca_pair { smi_name, smi_preferred_port, gsi_name, gsi_preferred_port }
        struct umad_device_node { next, ca_name }
        struct umad_reg_attr { mgmt_class, mgmt_class_version, flags, method_mask, oui, rmpp_version }
    }
}
