/* The lists of NCCL_ALGO and NCCL_PROTO (NCCL 2.28 graph/tuning.cc, parseList). */
#include "sim/nccl/env_list.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "runtime/status.h"
#include "sim/nccl/names.h"

enum { TEXT_BYTES_MAX = 1024, WORDS_MAX = TUTTI_NCCL_ALGORITHM_COUNT };

/* What a list is of. */
struct vocabulary {
    const char *variable;
    const char *accepted;
    const char *words[WORDS_MAX];
    uint32_t word_count;
};

static int read_word(const struct vocabulary *vocabulary, const char *word, uint8_t value,
                     uint8_t *on, struct tutti_err *err)
{
    for (uint32_t i = 0; i < vocabulary->word_count; i++) {
        if (strcasecmp(word, vocabulary->words[i]) == 0) {
            on[i] = value;
            return 0;
        }
    }
    return tutti_fail(err, TUTTI_EINVAL, "%s names no such thing: '%s' (%s)", vocabulary->variable,
                      word, vocabulary->accepted);
}

/* "^Tree,Ring" */
static int read_words(const struct vocabulary *vocabulary, char *text, uint8_t *on,
                      struct tutti_err *err)
{
    uint8_t listed = TUTTI_NCCL_ON;
    char *rest = NULL;

    if (text[0] == '^') {
        listed = TUTTI_NCCL_OFF;
        text++;
    }
    memset(on, TUTTI_NCCL_ON - listed, vocabulary->word_count);
    for (char *word = strtok_r(text, ",", &rest); word != NULL; word = strtok_r(NULL, ",", &rest)) {
        int status = read_word(vocabulary, word, listed, on, err);

        if (status < 0)
            return status;
    }
    return 0;
}

/* Entry number `index`, "[function:]words", into the row of its function, or of all. */
static int read_entry(const struct vocabulary *vocabulary, uint32_t index, char *entry,
                      uint8_t on[][WORDS_MAX], struct tutti_err *err)
{
    uint8_t row[WORDS_MAX] = {0};
    char *colon = strchr(entry, ':');
    bool found = false;
    int status;

    if (colon == NULL && index > 0)
        return tutti_fail(err, TUTTI_EINVAL,
                          "%s: only the first entry may be without a function: '%s' (allreduce:%s)",
                          vocabulary->variable, entry, entry);
    if (colon != NULL)
        *colon = '\0';
    status = read_words(vocabulary, colon != NULL ? colon + 1 : entry, row, err);
    if (status < 0)
        return status;
    for (int function = 0; function < TUTTI_NCCL_FUNCTION_COUNT; function++) {
        const char *name = tutti_nccl_function_name((enum tutti_nccl_function)function);

        if (colon != NULL && strcasecmp(entry, name) != 0)
            continue;
        memcpy(on[function], row, vocabulary->word_count);
        found = true;
    }
    if (!found)
        return tutti_fail(err, TUTTI_EINVAL,
                          "%s knows no function '%s' (broadcast, reduce, allgather, reducescatter "
                          "or allreduce)",
                          vocabulary->variable, entry);
    return 0;
}

static int read_list(const struct vocabulary *vocabulary, const char *text, uint8_t on[][WORDS_MAX],
                     struct tutti_err *err)
{
    char copy[TEXT_BYTES_MAX];
    char *rest = NULL;
    uint32_t index = 0;
    int length = snprintf(copy, sizeof(copy), "%s", text);

    if (length < 0 || (size_t)length >= sizeof(copy))
        return tutti_fail(err, TUTTI_EINVAL, "%s is %d bytes long (at most %d)",
                          vocabulary->variable, length, TEXT_BYTES_MAX - 1);
    for (char *entry = strtok_r(copy, ";", &rest); entry != NULL;
         entry = strtok_r(NULL, ";", &rest)) {
        int status = read_entry(vocabulary, index++, entry, on, err);

        if (status < 0)
            return status;
    }
    if (index == 0)
        return tutti_fail(err, TUTTI_EINVAL, "%s is empty (%s)", vocabulary->variable,
                          vocabulary->accepted);
    return 0;
}

int tutti_nccl_read_algorithms(const char *text,
                               uint8_t on[TUTTI_NCCL_FUNCTION_COUNT][TUTTI_NCCL_ALGORITHM_COUNT],
                               struct tutti_err *err)
{
    struct vocabulary vocabulary = {
        .variable = "NCCL_ALGO",
        .accepted = "Tree, Ring, CollNetDirect, CollNetChain, NVLS, NVLSTree or PAT",
        .word_count = TUTTI_NCCL_ALGORITHM_COUNT,
    };
    uint8_t rows[TUTTI_NCCL_FUNCTION_COUNT][WORDS_MAX];
    int status;

    for (int i = 0; i < TUTTI_NCCL_ALGORITHM_COUNT; i++)
        vocabulary.words[i] = tutti_nccl_algorithm_name((enum tutti_nccl_algorithm)i);
    memcpy(rows, on, sizeof(rows));
    status = read_list(&vocabulary, text, rows, err);
    if (status == 0)
        memcpy(on, rows, sizeof(rows));
    return status;
}

int tutti_nccl_read_protocols(const char *text,
                              uint8_t on[TUTTI_NCCL_FUNCTION_COUNT][TUTTI_NCCL_PROTOCOL_COUNT],
                              struct tutti_err *err)
{
    struct vocabulary vocabulary = {
        .variable = "NCCL_PROTO",
        .accepted = "LL, LL128 or Simple",
        .word_count = TUTTI_NCCL_PROTOCOL_COUNT,
    };
    uint8_t rows[TUTTI_NCCL_FUNCTION_COUNT][WORDS_MAX] = {{0}};
    int status;

    for (int i = 0; i < TUTTI_NCCL_PROTOCOL_COUNT; i++)
        vocabulary.words[i] = tutti_nccl_protocol_name((enum tutti_nccl_protocol)i);
    for (int i = 0; i < TUTTI_NCCL_FUNCTION_COUNT; i++)
        memcpy(rows[i], on[i], TUTTI_NCCL_PROTOCOL_COUNT);
    status = read_list(&vocabulary, text, rows, err);
    for (int i = 0; i < TUTTI_NCCL_FUNCTION_COUNT && status == 0; i++)
        memcpy(on[i], rows[i], TUTTI_NCCL_PROTOCOL_COUNT);
    return status;
}
