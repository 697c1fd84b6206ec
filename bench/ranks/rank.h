// What every rank program written in C or C++ does around its all-reduce: its options, its tensors, the timing, the
// check of every sum, and the line of JSON that it prints. `switchml bench rank` and torch_gloo.py do the same.
//
// A round all-reduces `batch` tensors in place, one after the other, and is timed from a barrier on. The tensors hold
// whole numbers that are small enough for every order of additions to give the exact sum.
#pragma once

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

// A prime, so that data displaced by a whole packet, segment or block does not look right.
enum { RANK_PERIOD = 251 };

struct rank_options {
    int rank, world, batch, rounds;
    size_t elements; // of each tensor
    const char *address; // of this rank's network interface
    const char *store; // a directory in which the ranks find each other
};

struct rank_calls {
    void *context;
    void (*barrier)(void *context);
    void (*all_reduce)(void *context, float *tensor, size_t elements);
};

static inline long rank_number(const char *program, const char *text, long least, long most) {
    char *end = NULL;
    errno = 0;
    long number = strtol(text, &end, 10);
    if (errno != 0 || end == text || *end != '\0' || number < least || number > most) {
        fprintf(stderr, "%s: %s is not a number from %ld to %ld\n", program, text, least, most);
        exit(2);
    }
    return number;
}

static inline struct rank_options rank_parse(int argc, char **argv) {
    struct rank_options options = {0, 1, 1, 1, 0, "127.0.0.1", NULL};
    enum { RANK, WORLD, OCTETS, BATCH, ROUNDS, ADDRESS, STORE };
    static const struct option known[] = {
        {"rank", required_argument, NULL, RANK},       {"world", required_argument, NULL, WORLD},
        {"octets", required_argument, NULL, OCTETS},   {"batch", required_argument, NULL, BATCH},
        {"rounds", required_argument, NULL, ROUNDS},   {"address", required_argument, NULL, ADDRESS},
        {"store", required_argument, NULL, STORE},     {NULL, 0, NULL, 0},
    };
    int option;
    while ((option = getopt_long(argc, argv, "", known, NULL)) != -1) {
        switch (option) {
        case RANK: options.rank = (int)rank_number(argv[0], optarg, 0, 63); break;
        case WORLD: options.world = (int)rank_number(argv[0], optarg, 1, 64); break;
        case OCTETS: options.elements = (size_t)rank_number(argv[0], optarg, 4, 1L << 32) / sizeof(float); break;
        case BATCH: options.batch = (int)rank_number(argv[0], optarg, 1, 100000); break;
        case ROUNDS: options.rounds = (int)rank_number(argv[0], optarg, 1, 100000); break;
        case ADDRESS: options.address = optarg; break;
        case STORE: options.store = optarg; break;
        default: exit(2);
        }
    }
    return options;
}

static inline int rank_element(int rank, int round, int tensor, int place) {
    return (int)((place + 37L * rank + 53L * round + 101L * tensor) % RANK_PERIOD) - RANK_PERIOD / 2;
}

static inline void rank_fill(const struct rank_options *options, int round, int number, float *tensor) {
    float period[RANK_PERIOD];
    for (int place = 0; place < RANK_PERIOD; place++)
        period[place] = (float)rank_element(options->rank, round, number, place);
    for (size_t element = 0; element < options->elements; element++)
        tensor[element] = period[element % RANK_PERIOD];
}

static inline void rank_check(const struct rank_options *options, int round, int number, const float *tensor) {
    float period[RANK_PERIOD];
    for (int place = 0; place < RANK_PERIOD; place++) {
        int sum = 0;
        for (int rank = 0; rank < options->world; rank++)
            sum += rank_element(rank, round, number, place);
        period[place] = (float)sum;
    }
    for (size_t element = 0; element < options->elements; element++) {
        if (tensor[element] != period[element % RANK_PERIOD]) {
            fprintf(stderr, "rank %d, round %d, tensor %d: element %zu is %g, and the sum %g\n", options->rank, round,
                    number, element, tensor[element], period[element % RANK_PERIOD]);
            exit(1);
        }
    }
}

static inline double rank_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

// Does all rounds, and prints how many seconds each took. A wrong sum ends the program with 1.
static inline void rank_run(const struct rank_options *options, const struct rank_calls *calls) {
    size_t tensors = (size_t)options->batch * options->elements;
    float *memory = (float *)malloc(tensors * sizeof(float));
    double *seconds = (double *)malloc((size_t)options->rounds * sizeof(double));
    if (memory == NULL || seconds == NULL) {
        fprintf(stderr, "rank %d: no memory for %zu elements\n", options->rank, tensors);
        exit(1);
    }
    for (int round = 0; round < options->rounds; round++) {
        for (int number = 0; number < options->batch; number++)
            rank_fill(options, round, number, memory + (size_t)number * options->elements);
        calls->barrier(calls->context);
        double start = rank_now();
        for (int number = 0; number < options->batch; number++)
            calls->all_reduce(calls->context, memory + (size_t)number * options->elements, options->elements);
        seconds[round] = rank_now() - start;
        calls->barrier(calls->context); // no rank checks while others still reduce: they share processors
        for (int number = 0; number < options->batch; number++)
            rank_check(options, round, number, memory + (size_t)number * options->elements);
    }
    // One write, so that the lines of several ranks do not mix.
    char line[1 << 16];
    int length = snprintf(line, sizeof line, "{\"rank\":%d,\"checked\":%zu,\"seconds\":[", options->rank,
                          tensors * (size_t)options->rounds);
    for (int round = 0; round < options->rounds && length < (int)sizeof line - 64; round++)
        length += snprintf(line + length, sizeof line - (size_t)length, "%s%.9f", round == 0 ? "" : ",", seconds[round]);
    printf("%s]}\n", line);
    fflush(stdout);
    free(seconds);
    free(memory);
}
