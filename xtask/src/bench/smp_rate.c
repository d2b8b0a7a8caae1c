/*
 * Queries the NodeInfo of a node by a directed route, with WINDOW requests outstanding, and prints the number answered
 * per second. It is an ordinary client of libibumad: it knows neither Weft nor ibsim.
 *
 * smp_rate SECONDS WINDOW [PORT...]
 */
#include <infiniband/umad.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MAD = 256, TIMEOUT_MS = 2000 };

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

/* A directed SubnGet(NodeInfo) (IBA 14.2.1.2). */
static void fill(uint8_t *mad, uint32_t number, int hops, char **hop)
{
	memset(mad, 0, MAD);
	mad[0] = 1;
	mad[1] = 0x81;
	mad[2] = 1;
	mad[3] = 1;
	mad[7] = hops;
	memcpy(mad + 12, &number, sizeof number);
	mad[17] = 0x11;
	memset(mad + 32, 0xff, 4);
	for (int i = 0; i < hops; i++)
		mad[129 + i] = atoi(hop[i]);
}

/* Whether this is an answer to our request, without an error, with the NodeInfo of a node that has ports. */
static int good(void *umad)
{
	uint8_t *mad = umad_get_mad(umad);

	return !umad_status(umad) && mad[1] == 0x81 && mad[3] == 0x81 && !(mad[4] & 0x7f) && !mad[5] && mad[64] == 1 &&
	       mad[67] > 0;
}

int main(int argc, char **argv)
{
	double seconds = argc > 1 ? atof(argv[1]) : 1, start, end;
	int window = argc > 2 ? atoi(argv[2]) : 64, hops = argc > 3 ? argc - 3 : 0;
	int port, agent, under_way = 0;
	uint32_t sent = 0, answered = 0;
	void *out, *in;

	if (umad_init() < 0 || (port = umad_open_port(NULL, 0)) < 0)
		return fprintf(stderr, "cannot open a port\n"), 1;
	if ((agent = umad_register(port, 0x81, 1, 0, NULL)) < 0)
		return fprintf(stderr, "cannot register\n"), 1;
	/* The library knows the header's length once a port is open. */
	out = umad_alloc(1, umad_size() + MAD);
	in = umad_alloc(1, umad_size() + MAD);
	umad_set_addr(out, 0xffff, 0, 0, 0);
	start = now();
	end = start + seconds;
	/* As in a subnet manager, each answer triggers the next request. */
	while (now() < end || under_way) {
		int length = MAD;

		while (under_way < window && now() < end) {
			fill(umad_get_mad(out), ++sent, hops, argv + 3);
			if (umad_send(port, agent, out, MAD, TIMEOUT_MS, 0) < 0)
				return perror("umad_send"), 1;
			under_way++;
		}
		if (!under_way)
			break;
		if (umad_recv(port, in, &length, TIMEOUT_MS) < 0)
			return fprintf(stderr, "no answer, %d under way\n", under_way), 1;
		under_way--;
		if (!good(in))
			return fprintf(stderr, "a wrong answer, status %d\n", umad_status(in)), 1;
		answered++;
	}
	printf("%.0f SMPs/sec\n", answered / (now() - start));
	umad_close_port(port);
	return 0;
}
