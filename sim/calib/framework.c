/* Constants of frameworks in a calibration: their names, and a framework with those it gives. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "runtime/status.h"
#include "sim/calib/classes.h"
#include "sim/calib/store.h"
#include "sim/device.h"

static const char prefix[] = "framework.";

enum { PREFIX_BYTES = sizeof(prefix) - 1, ACCEPTED_BYTES = 512 };

bool tutti_calib_names_framework(const char *name)
{
    return strncmp(name, prefix, PREFIX_BYTES) == 0;
}

static const char *framework_name(size_t index)
{
    size_t count;
    const struct tutti_framework *all = tutti_frameworks(&count);

    return index < count ? all[index].name : NULL;
}

static const char *constant_name(size_t index)
{
    size_t count;
    const struct tutti_framework_constant *all = tutti_framework_constants(&count);

    return index < count ? all[index].name : NULL;
}

/* The number of what is called as the first `bytes` of `word`. */
static int find(const char *what, const char *(*name)(size_t index), const char *word, size_t bytes,
                uint8_t *ret, struct tutti_err *err)
{
    char accepted[ACCEPTED_BYTES] = "";
    char hint[TUTTI_HINT_BYTES];
    char own[TUTTI_CALIB_NAME_BYTES];
    size_t used = 0;

    for (size_t i = 0; name(i) != NULL && used < sizeof(accepted); i++) {
        if (strncmp(name(i), word, bytes) == 0 && name(i)[bytes] == '\0') {
            *ret = (uint8_t)i;
            return 0;
        }
        used += (size_t)snprintf(accepted + used, sizeof(accepted) - used, "%s%s", i > 0 ? " " : "",
                                 name(i));
    }
    (void)snprintf(own, sizeof(own), "%.*s", (int)(bytes < sizeof(own) ? bytes : sizeof(own) - 1),
                   word);
    return tutti_fail(err, TUTTI_EINVAL, "unknown %s '%s' (%s%s)", what, own,
                      tutti_nearest_hint(own, accepted, hint), accepted);
}

int tutti_calib_framework_read(const char *name, struct tutti_calib_key *ret, struct tutti_err *err)
{
    const char *framework = name + PREFIX_BYTES;
    const char *point = strchr(framework, '.');
    struct tutti_calib_key key = {.gpu = TUTTI_CALIB_FRAMEWORK};
    int status;

    if (point == NULL)
        return tutti_fail(err, TUTTI_EINVAL,
                          "'%.64s' names no parameter (framework.NAME.CONSTANT, as "
                          "framework.pytorch.attention)",
                          name);
    status =
        find("framework", framework_name, framework, (size_t)(point - framework), &key.link, err);
    if (status == 0)
        status = find("constant", constant_name, point + 1, strlen(point + 1), &key.quantity, err);
    if (status == 0)
        *ret = key;
    return status;
}

void tutti_calib_framework_print(struct tutti_calib_key key, char name[TUTTI_CALIB_NAME_BYTES])
{
    int bytes = snprintf(name, TUTTI_CALIB_NAME_BYTES, "%s%s.%s", prefix, framework_name(key.link),
                         constant_name(key.quantity));

    assert(bytes > 0);
    assert(bytes < TUTTI_CALIB_NAME_BYTES);
}

double tutti_calib_framework_most(struct tutti_calib_key key)
{
    size_t count;
    const struct tutti_framework_constant *all = tutti_framework_constants(&count);

    assert(key.quantity < count);
    return all[key.quantity].most;
}

size_t tutti_calib_framework(const struct tutti_calib *const layers[], size_t count,
                             const struct tutti_framework *known, struct tutti_framework *ret)
{
    size_t constant_count;
    const struct tutti_framework_constant *constants = tutti_framework_constants(&constant_count);
    struct tutti_calib_key key = {.gpu = TUTTI_CALIB_FRAMEWORK};
    size_t found_count = 0;

    *ret = *known;
    while (framework_name(key.link) != NULL && strcmp(framework_name(key.link), known->name) != 0)
        key.link++;
    for (size_t c = 0; c < constant_count; c++) {
        const struct tutti_calib_value *found = NULL;

        key.quantity = (uint8_t)c;
        for (size_t i = 0; i < count && found == NULL; i++)
            found = tutti_calib_find(layers[i], key);
        if (found == NULL)
            continue;
        tutti_framework_set(ret, &constants[c], found->value);
        found_count++;
    }
    return found_count;
}
