/* Names of frameworks; see framework_names.h. */
#include "sim/train/framework_names.h"

#include <stddef.h>
#include <string.h>
#include <strings.h>

/* The first whose part is in a text, of those that a table has a row for. Frameworks that stand on
 * another compute as it does: who writes of PyTorch with DeepSpeed means the former's operations
 * and the latter's memory. */
static const struct {
    const char *part;
    const char *name[2]; /* [table]; NULL: it says nothing of that */
} names[] = {
    {"generic", {NULL, "generic"}},
    {"nanotron", {"nanotron", "nanotron"}},
    {"megatron-deepspeed", {"deepspeed", "deepspeed"}},
    {"deepspeed", {NULL, "deepspeed"}},
    {"internevo", {"internevo", "internevo"}},
    {"nemo", {"megatron", "nemo"}},
    {"megatron-lm", {"megatron-lm", "megatron"}},
    {"megatron", {"megatron", "megatron"}},
    {"horovod", {NULL, "horovod"}},
    {"tensorflow-xla", {"tensorflow-xla", "tensorflow"}},
    {"xla", {"xla", NULL}},
    {"jax", {"xla", "jax"}},
    {"tpu", {"xla", NULL}},
    {"maxtext", {"xla", NULL}},
    {"compile", {"compiled", NULL}},
    {"pytorch", {"pytorch", "pytorch"}},
    {"torch", {"pytorch", NULL}},
    {"detectron", {"pytorch", NULL}},
    {"deepspeed", {"deepspeed", NULL}},
    {"colossal", {"pytorch", NULL}},
    {"mosaic", {"pytorch", NULL}},
    {"tensorflow", {"tensorflow", "tensorflow"}},
    {"tf", {"tensorflow", NULL}},
    {"mxnet", {"tensorflow", NULL}},
    {"paddle", {"tensorflow", NULL}},
    {"oneflow", {"tensorflow", NULL}},
};

static int has(const char *text, const char *part)
{
    size_t bytes = strlen(part);

    while (*text != '\0' && strncasecmp(text, part, bytes) != 0)
        text++;
    return *text != '\0';
}

const char *tutti_framework_name(const char *text, enum tutti_framework_table table)
{
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (names[i].name[table] != NULL && has(text, names[i].part))
            return names[i].name[table];
    return NULL;
}
