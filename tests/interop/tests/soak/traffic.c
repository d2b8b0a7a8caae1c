/* One end of reliable connections that carry data which both ends check. It runs until it is killed or its peer dies,
 * while the network below comes and goes.
 *
 *     traffic DEVICE ADDRESS MEETING listen|connect TIMEOUT poll|sleep PROGRESS
 *
 * ADDRESS is the GID's own (IPv4 or IPv6), MEETING a Unix socket where the two ends exchange queue pair numbers, TIMEOUT
 * the local ACK timeout. PROGRESS is a file of 64-bit numbers: the messages checked on each connection, and the
 * milliseconds for which this program got no processor.
 *
 * Each message is an RDMA WRITE of up to 64 KiB into a slot of the peer and a SEND that names it. Some are read back, and
 * each adds one to a counter of the peer. The receiver checks the order, the length and every byte, and writes the number
 * of messages checked into the sender's memory, which frees the slot. An end without anything to send writes that number
 * again from time to time, so that a peer's death never goes unnoticed.
 *
 * Exit status: 1 set-up, 3 wrong data, 100 + the status of the first completion that failed. */

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define MUST(condition)                                                                                       \
	do {                                                                                                  \
		if (!(condition)) {                                                                           \
			fprintf(stderr, "line %d: not so: %s (errno %d)\n", __LINE__, #condition, errno);     \
			exit(1);                                                                              \
		}                                                                                             \
	} while (0)

#define CHECK(condition, qp)                                                                                  \
	do {                                                                                                  \
		if (!(condition)) {                                                                           \
			printf("wrong data on connection %d: %s\n", qp, #condition);                          \
			exit(3);                                                                              \
		}                                                                                             \
	} while (0)

enum {
	QPS = 2,
	SLOTS = 4,
	SLOT_BYTES = 64 << 10,
	RECEIVES = 16,
	SENDS = 64,
	SENDS_IN_FLIGHT = 32,
	EVERY_READ = 5,
	PAUSE_MS_MIN = 200,
	FAILED = 100,
	WRONG = 3,
	ALL = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC,
};

struct message {
	uint64_t number;
	uint32_t length;
	uint32_t seed;
};

/* Registered memory of a connection, the same layout at both ends. */
struct memory {
	uint8_t out[SLOTS][SLOT_BYTES];
	uint8_t in[SLOTS][SLOT_BYTES];
	uint8_t read[SLOT_BYTES];
	struct message sent[SLOTS], received[RECEIVES];
	uint64_t checked_here, checked_there, counter, counter_before;
};

/* Data that the ends exchange. */
struct told {
	union ibv_gid gid;
	uint32_t qpn[QPS], rkey[QPS];
	uint64_t addr[QPS];
};

enum kind { WRITE_SLOT, SEND_MESSAGE, READ_SLOT, ADD_ONE, WRITE_CHECKED };

struct connection {
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	struct memory *memory;
	uint32_t rkey;
	uint64_t addr;
	uint64_t next, sent, checked, added, told;
	/* Requests in the send queue, oldest first, and the expected result of a READ or an addition. */
	enum kind kinds[SENDS];
	struct message expected[SENDS];
	unsigned head, tail;
	/* A READ's buffer or the counter's old value is in use. */
	int reading, adding;
};

static struct connection connections[QPS];
static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static struct ibv_comp_channel *channel;
static uint32_t lot;
static volatile uint64_t *progress;
static volatile uint64_t *paused_ms;

static uint32_t drawn(void)
{
	lot ^= lot << 13;
	lot ^= lot >> 17;
	return lot ^= lot << 5;
}

static uint8_t pattern(uint32_t seed, uint32_t at)
{
	return (uint8_t)((seed + at) * 2654435761u >> 24);
}

static double seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec + now.tv_nsec / 1e9;
}

/* Returns the GID table's index of the address for RoCE v2; the device may not have noticed yet that the address came
 * back. */
static int row_of(const char *address, union ibv_gid *gid)
{
	uint8_t wanted[16] = { [10] = 0xff, [11] = 0xff };
	struct ibv_gid_entry row;

	MUST(inet_pton(AF_INET, address, wanted + 12) == 1 || inet_pton(AF_INET6, address, wanted) == 1);
	for (double until = seconds() + 10; seconds() < until; usleep(10000))
		for (int i = 0; i < 64; i++)
			if (ibv_query_gid_ex(context, 1, i, &row, 0) == 0 && row.gid_type == IBV_GID_TYPE_ROCE_V2 &&
			    memcmp(row.gid.raw, wanted, sizeof wanted) == 0) {
				*gid = row.gid;
				return i;
			}
	fprintf(stderr, "the device has no GID for %s\n", address);
	exit(1);
}

static int met(const char *path, int listens)
{
	struct sockaddr_un at = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	MUST(fd >= 0);
	strncpy(at.sun_path, path, sizeof at.sun_path - 1);
	if (listens) {
		MUST(bind(fd, (struct sockaddr *)&at, sizeof at) == 0 && listen(fd, 1) == 0);
		return accept(fd, NULL, NULL);
	}
	for (double until = seconds() + 20; connect(fd, (struct sockaddr *)&at, sizeof at) != 0; usleep(5000))
		MUST(seconds() < until);
	return fd;
}

static void exchange(int fd, const void *mine, void *theirs, size_t len)
{
	MUST(write(fd, mine, len) == (ssize_t)len && recv(fd, theirs, len, MSG_WAITALL) == (ssize_t)len);
}

static void receive(struct connection *c, unsigned nth)
{
	struct message *at = &c->memory->received[nth];
	struct ibv_sge sge = { .addr = (uintptr_t)at, .length = sizeof *at, .lkey = c->mr->lkey };
	struct ibv_recv_wr *bad, wr = { .wr_id = nth, .sg_list = &sge, .num_sge = 1 };

	MUST(ibv_post_recv(c->qp, &wr, &bad) == 0);
}

static void make(struct connection *c)
{
	struct ibv_qp_init_attr init = { .send_cq = cq,
					 .recv_cq = cq,
					 .cap = { .max_send_wr = SENDS,
						  .max_recv_wr = RECEIVES,
						  .max_send_sge = 1,
						  .max_recv_sge = 1,
						  .max_inline_data = 16 },
					 .qp_type = IBV_QPT_RC };

	c->memory = mmap(NULL, sizeof *c->memory, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	MUST(c->memory != MAP_FAILED && (c->mr = ibv_reg_mr(pd, c->memory, sizeof *c->memory, ALL)) &&
	     (c->qp = ibv_create_qp(pd, &init)));
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = ALL };
	MUST(ibv_modify_qp(c->qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) == 0);
	for (unsigned nth = 0; nth < RECEIVES; nth++)
		receive(c, nth);
}

static void join(struct connection *c, uint32_t qpn, const union ibv_gid *gid, int row, int timeout)
{
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_RTR,
				 .path_mtu = IBV_MTU_1024,
				 .dest_qp_num = qpn,
				 .max_dest_rd_atomic = 16,
				 .min_rnr_timer = 12,
				 .ah_attr = { .is_global = 1,
					      .port_num = 1,
					      .grh = { .dgid = *gid, .sgid_index = (uint8_t)row, .hop_limit = 4 } } };

	MUST(ibv_modify_qp(c->qp, &a,
			   IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
				   IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER) == 0);
	a = (struct ibv_qp_attr){
		.qp_state = IBV_QPS_RTS, .timeout = (uint8_t)timeout, .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = 16
	};
	MUST(ibv_modify_qp(c->qp, &a,
			   IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
				   IBV_QP_MAX_QP_RD_ATOMIC) == 0);
}

/* Posts a request on `len` bytes here and at the same place of the peer's memory, or at `there` in it. */
static void post(struct connection *c, enum kind kind, struct message expected, void *here, uint32_t len, void *there)
{
	uint64_t remote = c->addr + (uint64_t)((uint8_t *)there - (uint8_t *)c->memory);
	struct ibv_sge sge = { .addr = (uintptr_t)here, .length = len, .lkey = c->mr->lkey };
	struct ibv_send_wr *bad, wr = { .wr_id = SENDS, .sg_list = &sge, .num_sge = 1, .send_flags = IBV_SEND_SIGNALED };

	switch (kind) {
	case SEND_MESSAGE:
		wr.opcode = IBV_WR_SEND;
		break;
	case ADD_ONE:
		wr.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
		wr.wr.atomic.remote_addr = remote;
		wr.wr.atomic.rkey = c->rkey;
		wr.wr.atomic.compare_add = 1;
		break;
	case WRITE_CHECKED:
		wr.send_flags |= IBV_SEND_INLINE;
		/* fall through */
	default:
		wr.opcode = kind == READ_SLOT ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE;
		wr.wr.rdma.remote_addr = remote;
		wr.wr.rdma.rkey = c->rkey;
	}
	MUST(ibv_post_send(c->qp, &wr, &bad) == 0);
	c->kinds[c->head % SENDS] = kind;
	c->expected[c->head++ % SENDS] = expected;
}

static void tell_checked(struct connection *c)
{
	struct memory *m = c->memory;

	m->checked_here = c->told = c->checked;
	post(c, WRITE_CHECKED, (struct message){ 0 }, &m->checked_here, 8, &m->checked_there);
}

/* Sends the next message if its slot is free. */
static int send_next(struct connection *c)
{
	struct memory *m = c->memory;
	uint64_t there = *(volatile uint64_t *)&m->checked_there;
	unsigned slot = c->next % SLOTS;

	CHECK(there <= c->next, (int)(c - connections));
	/* The slot's previous message has arrived, and nothing of it will be sent or read again. */
	if (c->next - there >= SLOTS || c->next - c->sent >= SLOTS || c->head - c->tail > SENDS_IN_FLIGHT)
		return 0;
	uint32_t wide = drawn() % 8 ? 256 : SLOT_BYTES;
	struct message message = { .number = c->next++, .length = 1 + drawn() % wide, .seed = drawn() };
	for (uint32_t at = 0; at < message.length; at++)
		m->out[slot][at] = pattern(message.seed, at);
	m->sent[slot] = message;
	post(c, WRITE_SLOT, message, m->out[slot], message.length, m->in[slot]);
	if (message.number % EVERY_READ == 0 && !c->reading++)
		post(c, READ_SLOT, message, m->read, message.length, m->in[slot]);
	if (!c->adding++)
		post(c, ADD_ONE, (struct message){ .number = c->added++ }, &m->counter_before, 8, &m->counter);
	post(c, SEND_MESSAGE, message, &m->sent[slot], sizeof message, m);
	return 1;
}

static void on_message(struct connection *c, unsigned nth)
{
	struct message message = c->memory->received[nth];
	const uint8_t *in = c->memory->in[c->checked % SLOTS];
	int number = (int)(c - connections);

	CHECK(message.number == c->checked && message.length >= 1 && message.length <= SLOT_BYTES, number);
	for (uint32_t at = 0; at < message.length; at++)
		CHECK(in[at] == pattern(message.seed, at), number);
	receive(c, nth);
	progress[number] = ++c->checked;
}

static void on_done(struct connection *c)
{
	struct message expected = c->expected[c->tail % SENDS];
	int number = (int)(c - connections);

	switch (c->kinds[c->tail++ % SENDS]) {
	case READ_SLOT:
		for (uint32_t at = 0; at < expected.length; at++)
			CHECK(c->memory->read[at] == pattern(expected.seed, at), number);
		c->reading = 0;
		break;
	case ADD_ONE:
		CHECK(c->memory->counter_before == expected.number, number);
		c->adding = 0;
		break;
	case SEND_MESSAGE:
		c->sent++;
		break;
	default:
		break;
	}
}

/* Takes completions; returns their number. */
static int take(void)
{
	struct ibv_wc wc[16];
	int n = ibv_poll_cq(cq, 16, wc);

	MUST(n >= 0);
	for (int i = 0; i < n; i++) {
		struct connection *c = connections;
		while (c->qp->qp_num != wc[i].qp_num)
			c++;
		if (wc[i].status != IBV_WC_SUCCESS) {
			printf("connection %d: completion with status %d (%s), %llu checked\n", (int)(c - connections),
			       wc[i].status, ibv_wc_status_str(wc[i].status), (unsigned long long)c->checked);
			exit(FAILED + wc[i].status);
		}
		if (wc[i].wr_id < RECEIVES)
			on_message(c, (unsigned)wc[i].wr_id);
		else
			on_done(c);
	}
	return n;
}

/* Waits for something to do: a polling end yields, the other sleeps at most 50 ms. */
static void wait_for_work(int sleeps)
{
	struct pollfd ready = { .events = POLLIN };
	struct ibv_cq *of;
	void *with;

	if (!sleeps) {
		usleep(20);
		return;
	}
	MUST(ibv_req_notify_cq(cq, 0) == 0);
	if (take())
		return;
	ready.fd = channel->fd;
	if (poll(&ready, 1, 50) > 0) {
		MUST(ibv_get_cq_event(channel, &of, &with) == 0);
		ibv_ack_cq_events(of, 1);
	}
}

/* A turn of the loop takes less than PAUSE_MS_MIN, unless the program waits for a processor. */
static void note_pause(double *turned)
{
	double now = seconds(), ms = (now - *turned) * 1e3;

	if (ms >= PAUSE_MS_MIN)
		*paused_ms += (uint64_t)ms;
	*turned = now;
}

static void carry(int sleeps)
{
	double last = seconds(), turned = last;

	for (;;) {
		note_pause(&turned);
		int idle = take() == 0;
		for (struct connection *c = connections; c < connections + QPS; c++) {
			while (send_next(c))
				idle = 0;
			if (c->told != c->checked && c->head - c->tail <= SENDS_IN_FLIGHT)
				tell_checked(c);
		}
		if (!idle) {
			last = seconds();
			continue;
		}
		if (seconds() - last > 0.05) {
			last = seconds();
			for (struct connection *c = connections; c < connections + QPS; c++)
				if (c->head == c->tail)
					tell_checked(c);
		}
		wait_for_work(sleeps);
	}
}

int main(int argc, char **argv)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct told mine, theirs;
	int fd, file, row;

	MUST(argc == 8 && list);
	setvbuf(stdout, NULL, _IOLBF, 0);
	for (int i = 0; list[i]; i++)
		if (strcmp(ibv_get_device_name(list[i]), argv[1]) == 0)
			context = ibv_open_device(list[i]);
	MUST(context && (pd = ibv_alloc_pd(context)) && (channel = ibv_create_comp_channel(context)) &&
	     (cq = ibv_create_cq(context, 256, NULL, channel, 0)));
	MUST((file = open(argv[7], O_RDWR | O_CREAT, 0666)) >= 0 && ftruncate(file, 4096) == 0);
	progress = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	MUST(progress != MAP_FAILED);
	paused_ms = progress + QPS;
	lot = (uint32_t)getpid() | 1;
	row = row_of(argv[2], &mine.gid);
	for (int i = 0; i < QPS; i++) {
		make(&connections[i]);
		mine.qpn[i] = connections[i].qp->qp_num;
		mine.rkey[i] = connections[i].mr->rkey;
		mine.addr[i] = (uintptr_t)connections[i].memory;
	}
	MUST((fd = met(argv[3], strcmp(argv[4], "listen") == 0)) >= 0);
	exchange(fd, &mine, &theirs, sizeof mine);
	for (int i = 0; i < QPS; i++) {
		connections[i].rkey = theirs.rkey[i];
		connections[i].addr = theirs.addr[i];
		join(&connections[i], theirs.qpn[i], &theirs.gid, row, atoi(argv[5]));
	}
	exchange(fd, &mine, &theirs, 1);
	carry(strcmp(argv[6], "sleep") == 0);
}
