/* A program with NVTX ranges. It has what NVTX's headers make of a call: functions in tables that a tool sets. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <wchar.h>
typedef void (*function)(void);
struct event {
    uint16_t version, size;
    uint32_t category;
    int32_t color_type;
    uint32_t color;
    int32_t payload_type, reserved;
    uint64_t payload;
    int32_t message_type;
    const void *message;
};
static function core[16], core2[16], *slots[2][17];
static int get(int module, function ***table, unsigned *size) {
    int at = module == 5;
    if (module != 1 && module != 5) return 0;
    for (int i = 0; i < 16; i++) slots[at][i] = (at ? core2 : core) + i;
    *table = slots[at];
    *size = 16;
    return 1;
}
static const struct { size_t size; int (*get)(int, function ***, unsigned *); } callbacks = {16, get};
static const void *table(uint32_t id) { return id == 1 ? &callbacks : NULL; }
#define CALL(slot, type, ...) ((type)(slot))(__VA_ARGS__)
static struct event text(int32_t type, const void *message) {
    return (struct event){.version = 3, .size = 48, .message_type = type, .message = message};
}
static char all[1 << 20];
int main(int count, char **words) {
    const char *path = getenv("NVTX_INJECTION64_PATH");
    void *tool = path ? dlopen(path, RTLD_LAZY) : NULL;
    int (*begin)(const void *(*)(uint32_t)) =
        tool ? (int (*)(const void *(*)(uint32_t)))dlsym(tool, "InitializeInjectionNvtx2") : NULL;
    if (!begin || begin(table) != 1) return 98;
    if (count > 2) {
        /* A range for each name of the file, which ends with a NUL. */
        FILE *file = fopen(words[2], "rb");
        char *end = all + (file ? fread(all, 1, sizeof all, file) : 0);
        for (char *name = all; name < end; name += strlen(name) + 1) {
            CALL(core[9], int (*)(const char *), name);
            CALL(core[11], int (*)(void));
        }
        return 3;
    }
    if (CALL(core[9], int (*)(const char *), "outer\nrange") != 0) return 1;
    struct event wide = text(2, L"inn\u00e9r");
    if (CALL(core[8], int (*)(const struct event *), &wide) != 1) return 2;
    usleep(2000);
    if (CALL(core[11], int (*)(void)) != 1) return 3;
    void *domain = CALL(core2[12], void *(*)(const char *), "library");
    struct event registered = text(3, CALL(core2[10], void *(*)(void *, const char *), domain, "call"));
    /* Ranges of two domains may cross. */
    CALL(core2[4], int (*)(void *, const struct event *), domain, &registered);
    CALL(core[9], int (*)(const char *), "crossed");
    CALL(core2[5], int (*)(void *), domain);
    CALL(core[11], int (*)(void));
    uint64_t number = CALL(core[5], uint64_t (*)(const char *), "started");
    if (CALL(core[11], int (*)(void)) != 0) return 4;
    CALL(core[7], void (*)(uint64_t), number);
    CALL(core[7], void (*)(uint64_t), number + 7);
    if (CALL(core[11], int (*)(void)) >= 0) return 5;
    for (int i = 0; i < 400; i++) CALL(core[9], int (*)(const char *), "deep");
    for (int i = 0; i < 400; i++) CALL(core[11], int (*)(void));
    return 3;
}
