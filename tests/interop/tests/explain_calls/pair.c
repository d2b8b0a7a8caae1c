/* One side of a reliable connection, set up over TCP, with mistakes on request:
 *
 *     pair DEVICE GID_INDEX server PORT [KEY=VALUE]...
 *     pair DEVICE GID_INDEX client PORT ADDRESS [KEY=VALUE]...
 *
 * The client sends until a completion fails, prints its status, and stays for `hold` milliseconds. The server posts
 * receives and stays until the client closes the TCP connection. */
#include <arpa/inet.h>
#include <infiniband/verbs.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* What the two sides tell each other. */
struct greeting {
	uint32_t qpn;
	uint32_t rkey;
	uint64_t address;
	union ibv_gid gid;
};

/* The settings, by their keys on the command line. */
static struct setting {
	const char *key;
	long value;
} settings[] = {
	{"mtu", IBV_MTU_1024},	/* enum ibv_mtu */
	{"timeout", 10},	/* code */
	{"retry", 2},
	{"rnr", 7},
	{"receives", 64},
	{"first", 64},		/* bytes of the first message */
	{"size", 1024},		/* bytes of the others */
	{"qpn", 0},		/* added to the peer's number */
	{"gid", 0},		/* added to the last byte of the peer's GID */
	{"rkey", 0},		/* added to the peer's R_Key; not 0: WRITE instead of SEND */
	{"hold", 0},
};

static long setting(const char *key)
{
	for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
		if (!strcmp(settings[i].key, key))
			return settings[i].value;
	abort();
}

static void set(const char *word)
{
	for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
		size_t length = strlen(settings[i].key);
		if (!strncmp(word, settings[i].key, length) && word[length] == '=') {
			settings[i].value = atol(word + length + 1);
			return;
		}
	}
	fprintf(stderr, "unknown setting %s\n", word);
	exit(2);
}

static void need(int holds, const char *what)
{
	if (!holds) {
		perror(what);
		exit(1);
	}
}

/* A file whose existence lets the client go on after its first message. */
static const char *go;

static struct ibv_context *open_device(const char *name)
{
	int count;
	struct ibv_device **list = ibv_get_device_list(&count);
	for (int i = 0; list && i < count; i++)
		if (!strcmp(ibv_get_device_name(list[i]), name))
			return ibv_open_device(list[i]);
	return NULL;
}

static int meet(int is_server, int port, const char *address)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(port)};
	int fd = socket(AF_INET, SOCK_STREAM, 0), on = 1;
	if (is_server) {
		setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
		need(!bind(fd, (void *)&at, sizeof at) && !listen(fd, 1), "listen");
		return accept(fd, NULL, NULL);
	}
	inet_pton(AF_INET, address, &at.sin_addr);
	need(!connect(fd, (void *)&at, sizeof at), "connect");
	return fd;
}

static void connect_qp(struct ibv_qp *qp, int index, const struct greeting *peer)
{
	struct ibv_qp_attr init = {
		.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = IBV_ACCESS_REMOTE_WRITE,
	};
	struct ibv_qp_attr rtr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = setting("mtu"),
		.dest_qp_num = peer->qpn,
		.max_dest_rd_atomic = 1,
		.min_rnr_timer = 1,
		.ah_attr = {.is_global = 1, .port_num = 1, .grh = {.dgid = peer->gid, .sgid_index = index, .hop_limit = 64}},
	};
	struct ibv_qp_attr rts = {
		.qp_state = IBV_QPS_RTS,
		.timeout = setting("timeout"),
		.retry_cnt = setting("retry"),
		.rnr_retry = setting("rnr"),
		.max_rd_atomic = 1,
	};
	need(!ibv_modify_qp(qp, &init, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS), "INIT");
	need(!ibv_modify_qp(qp, &rtr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
			    IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER), "RTR");
	need(!ibv_modify_qp(qp, &rts, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
			    IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC), "RTS");
}

/* Sends one message; returns the status of its completion. */
static enum ibv_wc_status send_one(struct ibv_qp *qp, struct ibv_cq *cq, struct ibv_mr *mr, long bytes,
				   const struct greeting *peer)
{
	struct ibv_sge sge = {(uintptr_t)mr->addr, bytes, mr->lkey};
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED};
	struct ibv_send_wr *bad;
	struct ibv_wc wc;
	if (setting("rkey")) {
		wr.opcode = IBV_WR_RDMA_WRITE;
		wr.wr.rdma.rkey = peer->rkey + setting("rkey");
		wr.wr.rdma.remote_addr = peer->address;
	}
	need(!ibv_post_send(qp, &wr, &bad), "ibv_post_send");
	while (!ibv_poll_cq(cq, 1, &wc))
		;
	return wc.status;
}

int main(int argc, char **argv)
{
	if (argc < 5)
		return 2;
	int is_server = !strcmp(argv[3], "server"), index = atoi(argv[2]);
	for (int i = is_server ? 5 : 6; i < argc; i++)
		if (!strncmp(argv[i], "go=", 3))
			go = argv[i] + 3;
		else
			set(argv[i]);
	struct ibv_context *context = open_device(argv[1]);
	need(context != NULL, "ibv_open_device");
	struct ibv_pd *pd = ibv_alloc_pd(context);
	struct ibv_cq *cq = ibv_create_cq(context, 256, NULL, NULL, 0);
	static char buffer[1 << 16];
	struct ibv_mr *mr = ibv_reg_mr(pd, buffer, sizeof buffer, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	struct ibv_qp_init_attr make = {
		.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC,
		.cap = {.max_send_wr = 16, .max_recv_wr = 128, .max_send_sge = 1, .max_recv_sge = 1},
	};
	struct ibv_qp *qp = ibv_create_qp(pd, &make);
	need(qp != NULL, "ibv_create_qp");

	struct greeting own = {.qpn = qp->qp_num, .rkey = mr->rkey, .address = (uintptr_t)buffer}, peer;
	need(!ibv_query_gid(context, 1, index, &own.gid), "ibv_query_gid");
	int tcp = meet(is_server, atoi(argv[4]), is_server ? NULL : argv[5]);
	need(write(tcp, &own, sizeof own) == sizeof own && recv(tcp, &peer, sizeof peer, MSG_WAITALL) == sizeof peer, "TCP");
	peer.qpn += setting("qpn");
	peer.gid.raw[15] += setting("gid");
	connect_qp(qp, index, &peer);
	for (int i = 0; i < setting("receives"); i++) {
		struct ibv_sge sge = {(uintptr_t)buffer, sizeof buffer, mr->lkey};
		struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;
		if (is_server)
			need(!ibv_post_recv(qp, &wr, &bad), "ibv_post_recv");
	}
	/* Both are ready once each has heard the other's byte. */
	char ready = 1;
	need(write(tcp, &ready, 1) == 1 && read(tcp, &ready, 1) == 1, "TCP");
	if (is_server) {
		printf("connected\n");
		fflush(stdout);
		return read(tcp, &ready, 1) != 0;
	}
	enum ibv_wc_status status = send_one(qp, cq, mr, setting("first"), &peer);
	printf("first: %d\n", status);
	fflush(stdout);
	while (go && access(go, F_OK))
		usleep(1000);
	for (int i = 0; i < 60 && status == IBV_WC_SUCCESS; i++)
		status = send_one(qp, cq, mr, setting("size"), &peer);
	printf("status: %d\n", status);
	fflush(stdout);
	usleep(setting("hold") * 1000);
	return 0;
}
