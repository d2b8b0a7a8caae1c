/*
 * librpma between two programs: the client writes, flushes, reads back and sends; both compare.
 *
 * rpma server|client ADDRESS
 */
#include <librpma.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BYTES (1 << 20)
#define WORD_BYTES 64
#define PORT "7204"

static struct rpma_peer *peer;
static struct rpma_mr_local *region;
static unsigned char *memory;

static void must(int error, const char *what)
{
    if (error == 0)
        return;
    printf("%s: %s\n", what, rpma_err_2str(error));
    exit(1);
}

static void wrong(const char *what)
{
    printf("wrong: %s\n", what);
    exit(1);
}

static void event(struct rpma_conn *conn, enum rpma_conn_event wanted)
{
    enum rpma_conn_event came;
    must(rpma_conn_next_event(conn, &came), "rpma_conn_next_event");
    if (came != wanted)
        wrong(rpma_utils_conn_event_2str(came));
}

static void completion(struct rpma_conn *conn, uint64_t id)
{
    struct rpma_cq *cq;
    struct ibv_wc wc;
    must(rpma_conn_get_cq(conn, &cq), "rpma_conn_get_cq");
    must(rpma_cq_wait(cq), "rpma_cq_wait");
    must(rpma_cq_get_wc(cq, 1, &wc, NULL), "rpma_cq_get_wc");
    if (wc.status != IBV_WC_SUCCESS || wc.wr_id != id)
        wrong("a completion");
}

static unsigned char pattern(size_t at)
{
    return (unsigned char)(at * 7 + at / 4096 + 1);
}

static void serve(const char *address)
{
    char descriptor[64];
    size_t i, size;
    struct rpma_ep *ep;
    struct rpma_conn_req *request;
    struct rpma_conn *conn;
    must(rpma_mr_get_descriptor_size(region, &size), "rpma_mr_get_descriptor_size");
    must(rpma_mr_get_descriptor(region, descriptor), "rpma_mr_get_descriptor");
    struct rpma_conn_private_data told = {descriptor, (uint8_t)size};
    must(rpma_ep_listen(peer, address, PORT, &ep), "rpma_ep_listen");
    must(rpma_ep_next_conn_req(ep, NULL, &request), "rpma_ep_next_conn_req");
    must(rpma_conn_req_recv(request, region, BYTES, WORD_BYTES, (void *)1), "rpma_conn_req_recv");
    must(rpma_conn_req_connect(&request, &told, &conn), "rpma_conn_req_connect");
    event(conn, RPMA_CONN_ESTABLISHED);
    completion(conn, 1);
    for (i = 0; i < BYTES; i++)
        if (memory[i] != pattern(i))
            wrong("what was written");
    if (strcmp((char *)memory + BYTES, "written") != 0)
        wrong("what was sent");
    event(conn, RPMA_CONN_CLOSED);
    must(rpma_conn_disconnect(conn), "rpma_conn_disconnect");
    must(rpma_conn_delete(&conn), "rpma_conn_delete");
    must(rpma_ep_shutdown(&ep), "rpma_ep_shutdown");
}

static void use(const char *address)
{
    size_t i;
    struct rpma_conn_req *request;
    struct rpma_conn *conn;
    struct rpma_conn_private_data told;
    struct rpma_mr_remote *far;
    must(rpma_conn_req_new(peer, address, PORT, NULL, &request), "rpma_conn_req_new");
    must(rpma_conn_req_connect(&request, NULL, &conn), "rpma_conn_req_connect");
    event(conn, RPMA_CONN_ESTABLISHED);
    must(rpma_conn_get_private_data(conn, &told), "rpma_conn_get_private_data");
    must(rpma_mr_remote_from_descriptor(told.ptr, told.len, &far), "rpma_mr_remote_from_descriptor");
    for (i = 0; i < BYTES; i++)
        memory[i] = pattern(i);
    must(rpma_write(conn, far, 0, region, 0, BYTES, RPMA_F_COMPLETION_ON_ERROR, NULL), "rpma_write");
    must(rpma_flush(conn, far, 0, BYTES, RPMA_FLUSH_TYPE_VISIBILITY, RPMA_F_COMPLETION_ALWAYS, (void *)1), "rpma_flush");
    completion(conn, 1);
    must(rpma_read(conn, region, BYTES, far, 0, BYTES, RPMA_F_COMPLETION_ALWAYS, (void *)2), "rpma_read");
    completion(conn, 2);
    if (memcmp(memory, memory + BYTES, BYTES) != 0)
        wrong("what was read");
    strcpy((char *)memory, "written");
    must(rpma_send(conn, region, 0, WORD_BYTES, RPMA_F_COMPLETION_ALWAYS, (void *)3), "rpma_send");
    completion(conn, 3);
    must(rpma_conn_disconnect(conn), "rpma_conn_disconnect");
    event(conn, RPMA_CONN_CLOSED);
    must(rpma_mr_remote_delete(&far), "rpma_mr_remote_delete");
    must(rpma_conn_delete(&conn), "rpma_conn_delete");
}

int main(int argc, char **argv)
{
    int server = argc == 3 && strcmp(argv[1], "server") == 0;
    int usage = RPMA_MR_USAGE_READ_SRC | RPMA_MR_USAGE_READ_DST | RPMA_MR_USAGE_WRITE_SRC | RPMA_MR_USAGE_WRITE_DST |
                RPMA_MR_USAGE_FLUSH_TYPE_VISIBILITY | RPMA_MR_USAGE_SEND | RPMA_MR_USAGE_RECV;
    struct ibv_context *context;
    if (argc != 3)
        return 2;
    must(rpma_utils_get_ibv_context(
             argv[2], server ? RPMA_UTIL_IBV_CONTEXT_LOCAL : RPMA_UTIL_IBV_CONTEXT_REMOTE, &context),
         "rpma_utils_get_ibv_context");
    must(rpma_peer_new(context, &peer), "rpma_peer_new");
    memory = aligned_alloc(4096, 2 * BYTES);
    memset(memory, 0, 2 * BYTES);
    must(rpma_mr_reg(peer, memory, 2 * BYTES, usage, &region), "rpma_mr_reg");
    if (server)
        serve(argv[2]);
    else
        use(argv[2]);
    must(rpma_mr_dereg(&region), "rpma_mr_dereg");
    must(rpma_peer_delete(&peer), "rpma_peer_delete");
    puts("right");
    return 0;
}
