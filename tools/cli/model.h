/* The model that a command line names: one that Tutti knows, in sizes of one's own, or a file. */
#ifndef TUTTI_TOOLS_CLI_MODEL_H
#define TUTTI_TOOLS_CLI_MODEL_H

#include <stdbool.h>

#include "tools/options.h"

struct tutti_workload;

/* Sizes of a model; rows of an option table. */
#define TUTTI_OPTIONS_MODEL                                                                        \
    {.name = "seq",                                                                                \
     .type = TUTTI_OPTION_COUNT,                                                                   \
     .value = "N",                                                                                 \
     .min = 1,                                                                                     \
     .max = 1 << 20,                                                                               \
     .help = "tokens of a sequence (if not given: those that the model is known for)"},            \
        {.name = "vocab",                                                                          \
         .type = TUTTI_OPTION_COUNT,                                                               \
         .value = "N",                                                                             \
         .min = 1,                                                                                 \
         .max = 1 << 24,                                                                           \
         .help = "words of the vocabulary, padded if the framework does so"},                      \
        {.name = "classes",                                                                        \
         .type = TUTTI_OPTION_COUNT,                                                               \
         .value = "N",                                                                             \
         .min = 1,                                                                                 \
         .max = 1 << 24,                                                                           \
         .help = "classes that an image may be of"},                                               \
        {.name = "image",                                                                          \
         .type = TUTTI_OPTION_COUNT,                                                               \
         .value = "N",                                                                             \
         .min = 1,                                                                                 \
         .max = 1 << 14,                                                                           \
         .help = "pixels a side of an image"},                                                     \
    {                                                                                              \
        .name = "predictions", .type = TUTTI_OPTION_COUNT, .value = "N", .min = 1, .max = 1 << 20, \
        .help = "tokens of a sequence that BERT hides and predicts"                                \
    }

/* What an operand or an option "MODEL|FILE" takes. */
#define TUTTI_MODEL_TEXT                                                                          \
    "MODEL is a name, with sizes behind a colon where it is not as known: 'bert-large:seq=128', " \
    "'resnet50:image=160,classes=10'. A 'gpt' or 'llama' has the shape that is said: "            \
    "'gpt:layers=24,hidden=2048,heads=16,seq=2048,vocab=51200'; keys are layers, hidden, heads, " \
    "kv-heads, feed-forward, experts, active and tied beside the options' seq, vocab, classes, "  \
    "image and predictions. FILE is a model of one's own in Tutti's text, of which 'tutti model " \
    "show MODEL --text' is an example."

/* "NAME[:KEY=N,...]" or a file ("-": stdin); a name wins over a file of the same name, which
 * "./NAME" still reaches. The command's table has TUTTI_OPTIONS_MODEL. The caller frees it. */
int tutti_model_load(const struct tutti_args *args, const char *name_or_file,
                     struct tutti_workload **ret, struct tutti_err *err);

/* Whether it is a name that Tutti knows, not a file. */
bool tutti_model_is_name(const char *name_or_file);

#endif
