/* Misuse of memory: buffers, regions and keys. */

#include "common.h"

/* A buffer belongs to the adapter until the completion. */
static void buffer_changed(int is_wrong)
{
	char *at = pages(4096);
	struct ibv_mr *own = region(pd, at, 4096, IBV_ACCESS_LOCAL_WRITE);
	connected(IBV_QPT_RC);
	MUST(!post(qps[0], IBV_WR_RDMA_WRITE, (struct ibv_sge){ (uintptr_t)at, 4096, own->lkey }, IBV_SEND_SIGNALED));
	if (is_wrong)
		at[100] = 1;
	completed(1);
	at[100] = 2;
	MUST(!ibv_dereg_mr(own) && !munmap(at, 4096));
}

/* A receive names memory that goes away, or goes away after the flush. */
static void buffer_unmapped(int is_wrong)
{
	char *at = pages(8192);
	struct ibv_mr *own = region(pd, at, 8192, IBV_ACCESS_LOCAL_WRITE);
	connected(IBV_QPT_RC);
	MUST(!receive(qps[0], (struct ibv_sge){ (uintptr_t)at, 8192, own->lkey }));
	if (is_wrong)
		MUST(!munmap(at, 8192));
	flush(qps[0], 1);
	MUST(!ibv_dereg_mr(own));
	if (!is_wrong)
		MUST(!munmap(at, 8192));
}

static void region_unmapped(int is_wrong)
{
	char *at = pages(16384);
	struct ibv_mr *own = region(pd, at, 16384, IBV_ACCESS_LOCAL_WRITE);
	if (is_wrong)
		MUST(!munmap(at + 4096, 4096));
	MUST(!ibv_dereg_mr(own));
	MUST(!munmap(at, 16384));
}

static void region_in_use(int is_wrong)
{
	struct ibv_mr *own = region(pd, memory, 4096, IBV_ACCESS_LOCAL_WRITE);
	connected(IBV_QPT_RC);
	MUST(!receive(qps[0], (struct ibv_sge){ (uintptr_t)memory, 64, own->lkey }));
	if (is_wrong)
		MUST(!ibv_dereg_mr(own));
	flush(qps[0], 1);
	if (!is_wrong)
		MUST(!ibv_dereg_mr(own));
}

static void key_unknown(int is_wrong)
{
	struct ibv_sge sge = piece(0, 64);
	connected(IBV_QPT_RC);
	if (is_wrong)
		sge.lkey ^= 0x5a5a5a00;
	if (!post(qps[0], IBV_WR_RDMA_WRITE, sge, IBV_SEND_SIGNALED))
		MUST((completion().status != IBV_WC_SUCCESS) == is_wrong);
}

static void key_stale(int is_wrong)
{
	struct ibv_mr *own = region(pd, memory, 4096, IBV_ACCESS_LOCAL_WRITE);
	struct ibv_sge sge = { (uintptr_t)memory, 64, own->lkey };
	connected(IBV_QPT_RC);
	if (is_wrong)
		MUST(!ibv_dereg_mr(own));
	if (!post(qps[0], IBV_WR_RDMA_WRITE, sge, IBV_SEND_SIGNALED))
		MUST((completion().status != IBV_WC_SUCCESS) == is_wrong);
	if (!is_wrong)
		MUST(!ibv_dereg_mr(own));
}

static void key_wrong_pd(int is_wrong)
{
	struct ibv_pd *other = ibv_alloc_pd(context);
	MUST(other);
	struct ibv_mr *own = region(is_wrong ? other : pd, memory, 4096, IBV_ACCESS_LOCAL_WRITE);
	connected(IBV_QPT_RC);
	if (!post(qps[0], IBV_WR_RDMA_WRITE, (struct ibv_sge){ (uintptr_t)memory, 64, own->lkey }, IBV_SEND_SIGNALED))
		MUST((completion().status != IBV_WC_SUCCESS) == is_wrong);
	MUST(!ibv_dereg_mr(own) && !ibv_dealloc_pd(other));
}

static void key_out_of_range(int is_wrong)
{
	struct ibv_mr *own = region(pd, memory, 4096, IBV_ACCESS_LOCAL_WRITE);
	uint32_t length = is_wrong ? 97 : 96;
	connected(IBV_QPT_RC);
	if (!post(qps[0], IBV_WR_RDMA_WRITE, (struct ibv_sge){ (uintptr_t)memory + 4000, length, own->lkey }, IBV_SEND_SIGNALED))
		MUST((completion().status != IBV_WC_SUCCESS) == is_wrong);
	MUST(!ibv_dereg_mr(own));
}

/* A READ's sink is written by the adapter. */
static void key_no_access(int is_wrong)
{
	struct ibv_mr *own = region(pd, memory, 4096, is_wrong ? 0 : IBV_ACCESS_LOCAL_WRITE);
	connected(IBV_QPT_RC);
	if (!post(qps[0], IBV_WR_RDMA_READ, (struct ibv_sge){ (uintptr_t)memory, 64, own->lkey }, IBV_SEND_SIGNALED))
		MUST((completion().status != IBV_WC_SUCCESS) == is_wrong);
	MUST(!ibv_dereg_mr(own));
}

static void remote_access_without_local(int is_wrong)
{
	struct ibv_mr *own = ibv_reg_mr(pd, memory, 4096, IBV_ACCESS_REMOTE_WRITE | (is_wrong ? 0 : IBV_ACCESS_LOCAL_WRITE));
	MUST(own || is_wrong);
	if (own)
		MUST(!ibv_dereg_mr(own));
}

static void atomic(uint32_t length, uint64_t shift, int is_wrong)
{
	struct ibv_sge sge = piece(0, length);
	struct ibv_send_wr wr = request(IBV_WR_ATOMIC_FETCH_AND_ADD, &sge, IBV_SEND_SIGNALED);
	wr.wr.atomic.remote_addr += shift;
	wr.wr.atomic.compare_add = 1;
	connected(IBV_QPT_RC);
	if (!send_request(qps[0], &wr))
		MUST(completion().status == IBV_WC_SUCCESS || is_wrong);
}

static void atomic_misaligned(int is_wrong)
{
	atomic(8, is_wrong ? 4 : 8, is_wrong);
}

static void atomic_length(int is_wrong)
{
	atomic(is_wrong ? 4 : 8, 0, is_wrong);
}

/* Each datagram begins with room for a GRH. */
static void receive_no_grh_room(int is_wrong)
{
	connected(IBV_QPT_UD);
	MUST(!receive(qps[0], piece(0, is_wrong ? 32 : 72)));
}

/* Binds a window to a part of a region. */
static void bind_window(struct ibv_mr *to, struct ibv_pd *of, uint64_t length, int is_wrong)
{
	struct ibv_mw *window = ibv_alloc_mw(of, IBV_MW_TYPE_1);
	MUST(window);
	struct ibv_mw_bind bind = {
		.wr_id = 3,
		.send_flags = IBV_SEND_SIGNALED,
		.bind_info = { .mr = to, .addr = (uintptr_t)memory, .length = length, .mw_access_flags = IBV_ACCESS_REMOTE_READ },
	};
	connected(IBV_QPT_RC);
	if (!ibv_bind_mw(qps[0], window, &bind))
		MUST((completion().status == IBV_WC_SUCCESS) != is_wrong);
	else
		MUST(is_wrong);
	MUST(!ibv_dealloc_mw(window));
}

static void window_without_access(int is_wrong)
{
	struct ibv_mr *own = region(pd, memory, 4096, IBV_ACCESS_LOCAL_WRITE | (is_wrong ? 0 : IBV_ACCESS_MW_BIND));
	bind_window(own, pd, 64, is_wrong);
	MUST(!ibv_dereg_mr(own));
}

static void window_out_of_range(int is_wrong)
{
	struct ibv_mr *own = region(pd, memory, 4096, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
	bind_window(own, pd, 4096 + is_wrong, is_wrong);
	MUST(!ibv_dereg_mr(own));
}

/* The header's ibv_bind_mw refuses a window and a region that differ, and does not look at the queue pair. */
static void window_wrong_pd(int is_wrong)
{
	struct ibv_pd *other = ibv_alloc_pd(context);
	MUST(other);
	struct ibv_pd *of = is_wrong ? other : pd;
	struct ibv_mr *own = region(of, memory, 4096, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
	bind_window(own, of, 64, is_wrong);
	MUST(!ibv_dereg_mr(own) && !ibv_dealloc_pd(other));
}

int main(int argc, char **argv)
{
	static const struct misuse cases[] = {
		{ "buffer-changed", buffer_changed },
		{ "buffer-unmapped", buffer_unmapped },
		{ "region-unmapped", region_unmapped },
		{ "region-in-use", region_in_use },
		{ "key-unknown", key_unknown },
		{ "key-stale", key_stale },
		{ "key-wrong-pd", key_wrong_pd },
		{ "key-out-of-range", key_out_of_range },
		{ "key-no-access", key_no_access },
		{ "remote-access-without-local", remote_access_without_local },
		{ "atomic-misaligned", atomic_misaligned },
		{ "atomic-length", atomic_length },
		{ "receive-no-grh-room", receive_no_grh_room },
		{ "window-without-access", window_without_access },
		{ "window-out-of-range", window_out_of_range },
		{ "window-wrong-pd", window_wrong_pd },
	};
	return run_misuse(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
