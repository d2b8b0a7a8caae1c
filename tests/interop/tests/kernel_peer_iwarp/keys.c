/* A connection that a wrong key or a wrong address ends.
 *
 * keys ADDRESS serve              registers a page, tells the client its address and key, and reports how it all ended
 * keys ADDRESS write|read key     writes and reads the page, then uses a key that nobody gave out
 * keys ADDRESS write|read bounds  likewise, then uses an address behind the page */
#include <endian.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PORT "7300"
#define PAGE 4096
#define LIMIT 40
#define MUST(call)                                                                                                     \
	do {                                                                                                           \
		if (call) {                                                                                            \
			fflush(stdout);                                                                                \
			perror(#call);                                                                                 \
			exit(1);                                                                                       \
		}                                                                                                      \
	} while (0)

struct told {
	uint64_t address;
	uint32_t key;
} __attribute__((packed));

static char page[PAGE] __attribute__((aligned(PAGE))), own[PAGE] __attribute__((aligned(PAGE)));
static struct rdma_conn_param param = { .responder_resources = 1, .initiator_depth = 1 };

static struct rdma_cm_id *endpoint(const char *address, int flags)
{
	struct rdma_addrinfo hints = { .ai_flags = flags, .ai_port_space = RDMA_PS_TCP }, *found;
	struct ibv_qp_init_attr attr = {
		.cap = { .max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1 },
		.qp_type = IBV_QPT_RC,
	};
	struct rdma_cm_id *id;

	MUST(rdma_getaddrinfo(address, PORT, &hints, &found));
	MUST(rdma_create_ep(&id, found, NULL, &attr));
	rdma_freeaddrinfo(found);
	return id;
}

/* After a READ that it refuses, siw flushes receive requests only when the program asks for the error state. */
static void until_disconnected(struct rdma_cm_id *id)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };
	struct rdma_cm_event *event;
	struct ibv_wc wc;

	MUST(rdma_get_cm_event(id->channel, &event));
	printf("event: %s\n", rdma_event_str(event->event));
	rdma_ack_cm_event(event);
	ibv_modify_qp(id->qp, &attr, IBV_QP_STATE);
	MUST(rdma_get_recv_comp(id, &wc) != 1);
	printf("receive: %s\n", ibv_wc_status_str(wc.status));
}

static void serve(const char *address)
{
	struct rdma_cm_id *listener = endpoint(address, RAI_PASSIVE), *id;
	struct ibv_mr *mr;
	struct told told;

	MUST(rdma_listen(listener, 1));
	MUST(rdma_get_request(listener, &id));
	MUST(!(mr = ibv_reg_mr(id->pd, page, PAGE,
			       IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ)));
	MUST(rdma_post_recv(id, NULL, page, PAGE, mr));
	told = (struct told){ htobe64((uintptr_t)page), htobe32(mr->rkey) };
	param.private_data = &told;
	param.private_data_len = sizeof told;
	MUST(rdma_accept(id, &param));
	until_disconnected(id);
	printf("page: %s\n", page);
}

static enum ibv_wc_status done(struct rdma_cm_id *id)
{
	struct ibv_wc wc;

	MUST(rdma_get_send_comp(id, &wc) != 1);
	return wc.status;
}

static int post(struct rdma_cm_id *id, int reads, struct ibv_mr *mr, uint64_t address, uint32_t key)
{
	return reads ? rdma_post_read(id, NULL, own, 64, mr, IBV_SEND_SIGNALED, address, key) :
		       rdma_post_write(id, NULL, own, 64, mr, IBV_SEND_SIGNALED, address, key);
}

static void use(const char *address, int reads, int bounds)
{
	struct rdma_cm_id *id = endpoint(address, 0);
	struct told told;
	struct ibv_mr *mr;

	MUST(!(mr = ibv_reg_mr(id->pd, own, PAGE, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)));
	MUST(rdma_post_recv(id, NULL, own, PAGE, mr));
	MUST(rdma_connect(id, &param));
	memcpy(&told, id->event->param.conn.private_data, sizeof told);
	told = (struct told){ be64toh(told.address), be32toh(told.key) };
	strcpy(own, "as written");
	MUST(post(id, 0, mr, told.address, told.key) || done(id));
	memset(own, 0, sizeof own);
	MUST(post(id, 1, mr, told.address, told.key) || done(id));
	printf("read: %s\n", own);
	strcpy(own, "must not arrive");
	if (bounds)
		told.address += PAGE - 8;
	else
		told.key ^= 0x5500;
	MUST(post(id, reads, mr, told.address, told.key));
	printf("request: %s\n", ibv_wc_status_str(done(id)));
	until_disconnected(id);
}

int main(int argc, char **argv)
{
	alarm(LIMIT);
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (argc == 3 && !strcmp(argv[2], "serve"))
		serve(argv[1]);
	else if (argc == 4)
		use(argv[1], !strcmp(argv[2], "read"), !strcmp(argv[3], "bounds"));
	else
		return 2;
	return 0;
}
