/*
 * Queries a subnet administrator for paths to the hosts of its subnet, or joins and leaves multicast groups, with WINDOW
 * requests outstanding, and prints the number of paths or joins answered per second. It is an ordinary client of libibumad:
 * it knows neither Weft nor OpenSM.
 *
 * sa_rate paths|joins SECONDS WINDOW LIDS
 */
#include <infiniband/umad.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MAD = 256, DATA = 56, TIMEOUT_MS = 3000, GSI_QKEY = 0x80010000, WINDOW_MAX = 256 };
enum { GET = 1, SET = 2, DELETE = 0x15, GET_RESP = 0x81, DELETE_RESP = 0x95 };
enum { NODE_RECORD = 0x11, PATH_RECORD = 0x35, MC_MEMBER_RECORD = 0x38 };
enum { HEAD = 24, CHANNEL_ADAPTER = 1 };

static int port, agent;
static void *out, *in;
static uint8_t sgid[16], (*dgids)[16];
static int hosts;

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

static void put(uint8_t *to, uint64_t value, int bytes)
{
	for (; bytes--; value >>= 8)
		to[bytes] = value;
}

/* Writes the header of a request to the administrator (IBA 15.2.1); returns its record, for the caller to fill. */
static uint8_t *begin(int method, int attribute, uint64_t mask, uint32_t number)
{
	uint8_t *mad = umad_get_mad(out);

	memset(mad, 0, MAD);
	mad[0] = 1;
	mad[1] = 3;
	mad[2] = 2;
	mad[3] = method;
	memcpy(mad + 12, &number, sizeof number);
	put(mad + 16, attribute, 2);
	put(mad + 48, mask, 8);
	return mad + DATA;
}

/* A reversible path to a host, between GIDs (IBA 15.2.5.16). */
static void path(uint32_t number)
{
	uint8_t *record = begin(GET, PATH_RECORD, 1 << 2 | 1 << 3 | 1 << 11 | 1 << 12, number);

	memcpy(record + 8, dgids[number % hosts], 16);
	memcpy(record + 24, sgid, 16);
	record[49] = 0x81;
}

/* Joins or leaves the group with this number as a full member (IBA 15.2.5.17). */
static void member(int method, uint32_t number, int group)
{
	uint64_t parts = 1 << 0 | 1 << 1 | 1 << 16, creates = 1 << 2 | 1 << 6 | 1 << 7 | 1 << 12 | 1 << 13;
	uint8_t *record = begin(method, MC_MEMBER_RECORD, method == SET ? parts | creates : parts, number);

	put(record, 0xff121b1b, 4);
	put(record + 12, group + 0x10000, 4);
	memcpy(record + 16, sgid, 16);
	put(record + 32, 0xb1b, 4);
	put(record + 40, 0xffff, 2);
	record[48] = 0x21;
}

static int ask(void)
{
	return umad_send(port, agent, out, MAD, TIMEOUT_MS, 0);
}

/* Receives the next answer; an error if its status is one. */
static uint8_t *answer(void)
{
	int length = MAD;
	uint8_t *mad = umad_get_mad(in);

	if (umad_recv(port, in, &length, TIMEOUT_MS) < 0 || umad_status(in))
		return fprintf(stderr, "no answer, status %d\n", umad_status(in)), NULL;
	if (mad[1] != 3 || mad[4] || mad[5] || (mad[3] != GET_RESP && mad[3] != DELETE_RESP))
		return fprintf(stderr, "method 0x%02x with status 0x%02x%02x\n", mad[3], mad[4], mad[5]), NULL;
	return mad;
}

/* Queries the GIDs of all hosts by the records of these LIDs. */
static int learn(int lids)
{
	dgids = calloc(lids + 1, sizeof *dgids);
	for (int lid = 1; lid <= lids; lid++) {
		uint8_t *record = begin(GET, NODE_RECORD, 1, lid), *mad;

		put(record, lid, 2);
		if (ask() < 0 || !(mad = answer()))
			return 0;
		if (mad[DATA + 4 + 2] != CHANNEL_ADAPTER)
			continue;
		memcpy(dgids[hosts], sgid, 8);
		memcpy(dgids[hosts++] + 8, mad + DATA + HEAD, 8);
	}
	return hosts;
}

static uint32_t number_of(const uint8_t *mad)
{
	uint32_t number;

	memcpy(&number, mad + 12, sizeof number);
	return number;
}

int main(int argc, char **argv)
{
	int joins = argc > 1 && !strcmp(argv[1], "joins"), window = argc > 3 ? atoi(argv[3]) : 64;
	double seconds = argc > 2 ? atof(argv[2]) : 1, start, end;
	uint32_t under_way = 0, sent = 0, counted = 0;
	/* The number of the outstanding request of each group. */
	uint32_t asked[WINDOW_MAX];
	umad_port_t here;

	if (umad_init() < 0 || umad_get_port(NULL, 0, &here) < 0 || (port = umad_open_port(NULL, 0)) < 0)
		return fprintf(stderr, "cannot open a port\n"), 1;
	if ((agent = umad_register(port, 3, 2, 1, NULL)) < 0 || window > WINDOW_MAX)
		return fprintf(stderr, "cannot register\n"), 1;
	out = umad_alloc(1, umad_size() + MAD);
	in = umad_alloc(1, umad_size() + MAD);
	umad_set_addr(out, here.sm_lid, 1, here.sm_sl, GSI_QKEY);
	memcpy(sgid, &here.gid_prefix, 8);
	memcpy(sgid + 8, &here.port_guid, 8);
	if (!learn(argc > 4 ? atoi(argv[4]) : 1))
		return fprintf(stderr, "no hosts\n"), 1;
	start = now();
	end = start + seconds;
	for (; under_way < window; under_way++) {
		if (joins)
			member(SET, asked[under_way] = sent, under_way);
		else
			path(sent);
		sent++;
		if (ask() < 0)
			return perror("umad_send"), 1;
	}
	/* Each answer triggers the next request: after a join a leave, after a leave a join. */
	while (under_way) {
		uint8_t *mad = answer();
		int group = 0, joined = mad && mad[3] == GET_RESP;

		if (!mad)
			return 1;
		counted += joined;
		under_way--;
		if (now() >= end && !(joins && joined))
			continue;
		if (joins) {
			while (asked[group] != number_of(mad))
				group++;
			member(joined ? DELETE : SET, asked[group] = sent, group);
		} else {
			path(sent);
		}
		sent++;
		under_way++;
		if (ask() < 0)
			return perror("umad_send"), 1;
	}
	printf("%.0f %s/sec\n", counted / (now() - start), joins ? "joins" : "paths");
	umad_close_port(port);
	return 0;
}
