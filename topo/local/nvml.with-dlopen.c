/* Answers of NVML as facts: opened at run time, for no machine need have it. */
#include <ctype.h>
#include <dlfcn.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/status.h"
#include "topo/local/facts.h"
#include "topo/local/nvml_calls.h"

struct tutti_nvml {
    void *library;
#define FIELD_OF(FIELD, SYMBOL, PARAMETERS, NEEDED) int(*FIELD) PARAMETERS;
    TUTTI_NVML_CALLS(FIELD_OF)
};

#define NAME_OF(FIELD, SYMBOL, PARAMETERS, NEEDED) \
    {SYMBOL, offsetof(struct tutti_nvml, FIELD), NEEDED},
static const struct {
    const char *symbol;
    size_t offset;
    int needed;
} calls[] = {TUTTI_NVML_CALLS(NAME_OF)};

static int find_calls(struct tutti_nvml *nvml, const char *name, struct tutti_err *err)
{
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        void *symbol = dlsym(nvml->library, calls[i].symbol);

        if (symbol == NULL && calls[i].needed)
            return tutti_fail(err, TUTTI_ELACK, "'%s' has no '%s' (NVML of a driver from 2019 on)",
                              name, calls[i].symbol);
        memcpy((char *)nvml + calls[i].offset, &symbol, sizeof(symbol));
    }
    return 0;
}

/* A library that cannot start is, like none, no error unless it was named: a machine may have the
 * package without the GPU. */
int tutti_nvml_open(const char *library, struct tutti_nvml **ret, struct tutti_err *err)
{
    const char *name = library != NULL ? library : "libnvidia-ml.so.1";
    struct tutti_nvml nvml = {.library = dlopen(name, RTLD_NOW | RTLD_LOCAL)};
    int status = 0;
    int result = TUTTI_NVML_SUCCESS;

    *ret = NULL;
    if (nvml.library == NULL)
        return library == NULL ? 0
                               : tutti_fail(err, TUTTI_ELACK, "cannot open NVML: %s", dlerror());
    status = find_calls(&nvml, name, err);
    if (status == 0) {
        result = nvml.init();
        if (result != TUTTI_NVML_SUCCESS)
            status = tutti_fail(err, TUTTI_ELACK, "nvmlInit_v2 of '%s': error %d", name, result);
    }
    if (status == 0) {
        *ret = malloc(sizeof(nvml));
        if (*ret != NULL) {
            **ret = nvml;
            return 0;
        }
        (void)nvml.shutdown();
        status = tutti_nomem(err);
    }
    (void)dlclose(nvml.library);
    return library == NULL && status == -TUTTI_ELACK ? 0 : status;
}

void tutti_nvml_close(struct tutti_nvml *nvml)
{
    if (nvml == NULL)
        return;
    (void)nvml->shutdown();
    (void)dlclose(nvml->library);
    free(nvml);
}

/* ---- answers ------------------------------------------------------------------------------- */

static bool say(char buf[TUTTI_FACT_BYTES], int result, const char *text)
{
    if (result != TUTTI_NVML_SUCCESS)
        return false;
    (void)snprintf(buf, TUTTI_FACT_BYTES, "%s", text);
    for (char *c = buf; *c != '\0'; c++)
        *c = (char)(*c < ' ' || *c > '~' ? '?' : *c);
    return true;
}

/* "00000000:18:00.0", with a domain of 8 digits, as sysfs has it: "0000:18:00.0". */
static void print_bus(const struct tutti_nvml_pci *pci, char *buf, size_t buf_bytes)
{
    char id[sizeof(pci->bus_id) + 1];
    const char *from = id;

    (void)snprintf(id, sizeof(id), "%.*s", (int)sizeof(pci->bus_id), pci->bus_id);
    for (char *c = id; *c != '\0'; c++)
        *c = (char)tolower((unsigned char)*c);
    if (strlen(id) == 16 && strncmp(id, "0000", 4) == 0)
        from = id + 4;
    (void)snprintf(buf, buf_bytes, "%s", from);
}

static bool answer_link(const struct tutti_nvml *nvml, void *gpu, unsigned link,
                        char buf[TUTTI_FACT_BYTES])
{
    struct tutti_nvml_pci remote[2] = {{.bus_id = ""}}; /* one more, for a larger one of later */
    int type = TUTTI_NVML_REMOTE_UNKNOWN;
    int active = 0;
    char bus[40];

    if (nvml->link_state(gpu, link, &active) != TUTTI_NVML_SUCCESS || active == 0 ||
        nvml->link_pci(gpu, link, remote) != TUTTI_NVML_SUCCESS)
        return false;
    if (nvml->link_type != NULL && nvml->link_type(gpu, link, &type) != TUTTI_NVML_SUCCESS)
        type = TUTTI_NVML_REMOTE_UNKNOWN;
    print_bus(remote, bus, sizeof(bus));
    (void)snprintf(buf, TUTTI_FACT_BYTES, "%s %s",
                   type == TUTTI_NVML_REMOTE_GPU      ? "gpu"
                   : type == TUTTI_NVML_REMOTE_SWITCH ? "switch"
                   : type == TUTTI_NVML_REMOTE_NPU    ? "npu"
                                                      : "unknown",
                   bus);
    return true;
}

static bool answer_c2c(const struct tutti_nvml *nvml, void *gpu, char buf[TUTTI_FACT_BYTES])
{
    struct tutti_nvml_field fields[2] = {{.id = TUTTI_NVML_C2C_COUNT, .result = -1},
                                         {.id = TUTTI_NVML_C2C_MBYTE_PER_S, .result = -1}};

    if (nvml->fields == NULL || nvml->fields(gpu, 2, fields) != TUTTI_NVML_SUCCESS ||
        fields[0].result != TUTTI_NVML_SUCCESS || fields[1].result != TUTTI_NVML_SUCCESS ||
        (uint32_t)fields[0].value == 0)
        return false;
    (void)snprintf(buf, TUTTI_FACT_BYTES, "%" PRIu32 " %" PRIu32, (uint32_t)fields[0].value,
                   (uint32_t)fields[1].value);
    return true;
}

static bool answer_peer(const struct tutti_nvml *nvml, void *gpu, unsigned other,
                        char buf[TUTTI_FACT_BYTES])
{
    void *peer = NULL;
    int reads = 1;
    int writes = 1;

    if (nvml->peer == NULL || nvml->handle(other, &peer) != TUTTI_NVML_SUCCESS ||
        nvml->peer(gpu, peer, TUTTI_NVML_P2P_READ, &reads) != TUTTI_NVML_SUCCESS ||
        nvml->peer(gpu, peer, TUTTI_NVML_P2P_WRITE, &writes) != TUTTI_NVML_SUCCESS)
        return false;
    return say(buf, TUTTI_NVML_SUCCESS, reads == 0 && writes == 0 ? "1" : "0");
}

/* Numbers: compute capability, memory, PCIe, MIG. */
static bool answer_number(const struct tutti_nvml *nvml, void *gpu, const char *what,
                          char buf[TUTTI_FACT_BYTES])
{
    struct tutti_nvml_memory memory = {0};
    unsigned a = 0;
    unsigned b = 0;
    int major = 0;
    int minor = 0;
    char text[64] = "";
    int result = -1;

    if (strcmp(what, "sm") == 0) {
        result = nvml->capability(gpu, &major, &minor);
        (void)snprintf(text, sizeof(text), "%d", 10 * major + minor);
    } else if (strcmp(what, "memory") == 0) {
        result = nvml->memory(gpu, &memory);
        (void)snprintf(text, sizeof(text), "%llu", memory.total);
    } else if (strcmp(what, "pcie") == 0) {
        result = nvml->pcie_generation(gpu, &a);
        if (result == TUTTI_NVML_SUCCESS)
            result = nvml->pcie_width(gpu, &b);
        (void)snprintf(text, sizeof(text), "%u %u", a, b);
    } else if (strcmp(what, "mig") == 0 && nvml->mig != NULL) {
        result = nvml->mig(gpu, &a, &b);
        (void)snprintf(text, sizeof(text), "%u", a);
    }
    return say(buf, result, text);
}

static bool answer_of(const struct tutti_nvml *nvml, void *gpu, const char *what,
                      char buf[TUTTI_FACT_BYTES])
{
    char text[TUTTI_NVML_NAME_BYTES] = "";
    struct tutti_nvml_pci pci[2] = {{.bus_id = ""}};

    if (strcmp(what, "name") == 0)
        return say(buf, nvml->name(gpu, text, sizeof(text) - 1), text);
    if (strcmp(what, "bus") == 0) {
        if (nvml->pci(gpu, pci) != TUTTI_NVML_SUCCESS)
            return false;
        print_bus(pci, text, sizeof(text));
        return say(buf, TUTTI_NVML_SUCCESS, text);
    }
    if (strncmp(what, "link/", 5) == 0)
        return answer_link(nvml, gpu, (unsigned)strtoul(what + 5, NULL, 10), buf);
    if (strncmp(what, "peer/", 5) == 0)
        return answer_peer(nvml, gpu, (unsigned)strtoul(what + 5, NULL, 10), buf);
    if (strcmp(what, "c2c") == 0)
        return answer_c2c(nvml, gpu, buf);
    return answer_number(nvml, gpu, what, buf);
}

bool tutti_nvml_answer(const struct tutti_nvml *nvml, const char *name, char buf[TUTTI_FACT_BYTES])
{
    char text[TUTTI_NVML_NAME_BYTES] = "";
    unsigned count = 0;
    void *gpu = NULL;
    char *end;
    unsigned long index;
    int result;

    if (strcmp(name, "driver") == 0)
        return say(buf, nvml->driver(text, sizeof(text) - 1), text);
    if (strcmp(name, "count") == 0) {
        result = nvml->count(&count);
        (void)snprintf(text, sizeof(text), "%u", count);
        return say(buf, result, text);
    }
    index = strtoul(name, &end, 10);
    if (end == name || *end != '/' || nvml->handle((unsigned)index, &gpu) != TUTTI_NVML_SUCCESS)
        return false;
    return answer_of(nvml, gpu, end + 1, buf);
}
