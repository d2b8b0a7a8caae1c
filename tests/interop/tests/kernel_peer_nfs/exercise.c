/* Random reads, writes and truncations of one file, each compared with a copy in memory: exercise FILE SEED OPERATIONS.
 * The file is opened again and again, so that reads come from the server.
 * exercise FILE SEED NMiB: a long file, written and read from its beginning to its end. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { SIZE_MAX_BYTES = 1 << 20 };

static unsigned char copy[SIZE_MAX_BYTES], buffer[SIZE_MAX_BYTES];
static size_t size;
static unsigned long long state;

static unsigned random_number(unsigned below)
{
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    return (unsigned)(state >> 33) % below;
}

static int fail(const char *what)
{
    perror(what);
    return 1;
}

static int compare(int fd, int operation)
{
    size_t at = size ? random_number(size) : 0, done = 0, wanted = random_number(SIZE_MAX_BYTES / 4) + 1;
    while (done < wanted) {
        ssize_t n = pread(fd, buffer + done, wanted - done, at + done);
        if (n < 0)
            return fail("pread");
        if (n == 0)
            break;
        done += n;
    }
    size_t expected = size - at < wanted ? size - at : wanted;
    if (done != expected || memcmp(buffer, copy + at, done)) {
        fprintf(stderr, "operation %d: %zu bytes at %zu differ (expected %zu)\n", operation, done, at, expected);
        return 1;
    }
    return 0;
}

/* The bytes of one mebibyte of the long file: each word is different. */
static void fill(unsigned char *bytes, unsigned long long mebibyte)
{
    unsigned long long word = (mebibyte + 1) * 2862933555777941757ULL + state;
    for (size_t at = 0; at < SIZE_MAX_BYTES; at += sizeof(word)) {
        word = word * 6364136223846793005ULL + 1442695040888963407ULL;
        memcpy(bytes + at, &word, sizeof(word));
    }
}

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec + now.tv_nsec / 1e9;
}

static int long_file(const char *path, unsigned mebibytes)
{
    int fd = open(path, O_CREAT | O_TRUNC | O_WRONLY, 0600);
    if (fd < 0)
        return fail("open");
    double begun = seconds();
    for (unsigned mebibyte = 0; mebibyte < mebibytes; mebibyte++) {
        fill(copy, mebibyte);
        for (size_t done = 0; done < SIZE_MAX_BYTES;) {
            ssize_t n = write(fd, copy + done, SIZE_MAX_BYTES - done);
            if (n < 0)
                return fail("write");
            done += n;
        }
    }
    if (fsync(fd) || posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED) || close(fd))
        return fail("fsync");
    double written = seconds();
    fd = open(path, O_RDONLY);
    if (fd < 0)
        return fail("open");
    for (unsigned mebibyte = 0; mebibyte < mebibytes; mebibyte++) {
        fill(copy, mebibyte);
        for (size_t done = 0; done < SIZE_MAX_BYTES;) {
            ssize_t n = read(fd, buffer + done, SIZE_MAX_BYTES - done);
            if (n <= 0)
                return fail("read");
            done += n;
        }
        if (memcmp(buffer, copy, SIZE_MAX_BYTES)) {
            fprintf(stderr, "mebibyte %u differs\n", mebibyte);
            return 1;
        }
    }
    double read_at = seconds();
    printf("%u MiB agree, %.0f MiB/s written, %.0f MiB/s read\n", mebibytes, mebibytes / (written - begun),
           mebibytes / (read_at - written));
    return 0;
}

int main(int argc, char **argv)
{
    if (argc != 4)
        return 2;
    state = strtoull(argv[2], NULL, 0);
    if (strstr(argv[3], "MiB"))
        return long_file(argv[1], atoi(argv[3]));
    int operations = atoi(argv[3]);
    int fd = open(argv[1], O_CREAT | O_TRUNC | O_RDWR, 0600);
    for (int operation = 0; operation < operations; operation++) {
        if (fd < 0)
            return fail("open");
        switch (random_number(8)) {
        case 0: {
            size_t to = random_number(SIZE_MAX_BYTES);
            if (ftruncate(fd, to))
                return fail("ftruncate");
            if (to > size)
                memset(copy + size, 0, to - size);
            size = to;
            break;
        }
        case 1:
            /* Drops what the client's cache holds. */
            if (fsync(fd) || posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED) || close(fd))
                return fail("fsync");
            fd = open(argv[1], O_RDWR);
            break;
        case 2:
        case 3:
        case 4: {
            size_t at = random_number(SIZE_MAX_BYTES - 1), len = random_number(SIZE_MAX_BYTES / 8) + 1;
            if (len > SIZE_MAX_BYTES - at)
                len = SIZE_MAX_BYTES - at;
            if (at > size)
                memset(copy + size, 0, at - size);
            for (size_t i = 0; i < len; i++)
                copy[at + i] = random_number(256);
            for (size_t done = 0; done < len;) {
                ssize_t n = pwrite(fd, copy + at + done, len - done, at + done);
                if (n < 0)
                    return fail("pwrite");
                done += n;
            }
            if (at + len > size)
                size = at + len;
            break;
        }
        default:
            if (compare(fd, operation))
                return 1;
        }
    }
    printf("%d operations agree\n", operations);
    return close(fd) ? fail("close") : 0;
}
