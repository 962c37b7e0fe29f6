/* The compiled init of a container: follows the steps of steps.py as builder.py does, a tenth as dear.
 *
 *   init STATE SOCKET     SOCKET: a descriptor; one packet per container, with its directory, the kinds of the pod's
 *                         namespaces, and descriptors: where to tell that it began, its steps, then one per
 *                         namespace.
 *
 * Every container is a child with a PID and a mount namespace of its own; its number is the answer. What a step means
 * is said in builder.py; the two must do the same, and the same tests run on both. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <grp.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

enum { START_ERROR = 128, DRAINING_MS = 2000, MOST_KINDS = 4 };
enum { NR_OPEN_TREE = 428, NR_MOVE_MOUNT = 429, NR_OPENAT2 = 437, NR_MOUNT_SETATTR = 442, BENEATH = 8 };
enum { TREE_CLONE = 1, RECURSIVE = 0x8000, EMPTY_PATH = 0x1000, MOVE_EMPTY_SOURCE = 4, ATTR_IDMAP = 0x100000 };

static const char *KINDS[MOST_KINDS] = {"net", "uts", "ipc", "user"};
static const int FORWARDED[] = {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2};
enum { FORWARD_COUNT = sizeof FORWARDED / sizeof *FORWARDED };

static int held[MOST_KINDS] = {-1, -1, -1, -1};
static uid_t first_uid;
static gid_t first_gid;
static int record = -1; /* of the attempt */
static char words[2048]; /* why something could not be done */

struct step { int count; char **word; };
struct plan { struct step *step; int count; };

static int failed(const char *format, ...) {
    int number = errno;
    va_list rest;
    va_start(rest, format);
    int used = vsnprintf(words, sizeof words, format, rest);
    va_end(rest);
    if (number && used >= 0 && (size_t)used < sizeof words)
        snprintf(words + used, sizeof words - used, ": %s", strerror(number));
    errno = number;
    return -1;
}

static int said(const char *format, ...) { /* words of our own, without the kernel's */
    va_list rest;
    va_start(rest, format);
    vsnprintf(words, sizeof words, format, rest);
    va_end(rest);
    errno = 0;
    return -1;
}

static char *joined(const char *a, const char *b) {
    char *text = malloc(strlen(a) + strlen(b) + 1);
    return text ? strcat(strcpy(text, a), b) : NULL;
}

/* ---- the attempt's record, as records.py has it ---- */

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return t.tv_sec + t.tv_nsec / 1e9;
}

static void note(const char *text) { /* one line in one call: whoever reads sees all of it or nothing */
    ssize_t wrote = write(record, text, strlen(text));
    (void)wrote;
}

static long long start_ticks(void) {
    char text[1024];
    int file = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
    ssize_t length = file < 0 ? -1 : read(file, text, sizeof text - 1);
    if (file >= 0) close(file);
    if (length <= 0) return 0;
    text[length] = 0;
    char *place = strrchr(text, ')');
    for (int field = 0; place && field < 20; field++) place = strchr(place + 1, ' ');
    return place ? atoll(place + 1) : 0;
}

static void note_identity(void) {
    char text[128], link[32] = "";
    ssize_t length = readlink("/proc/self", link, sizeof link - 1); /* /proc is still the host's */
    int pid = length > 0 ? atoi(link) : getpid();
    snprintf(text, sizeof text, "process {\"pid\": %d, \"start\": %lld, \"at\": %.6f}\n", pid, start_ticks(), now());
    note(text);
}

static void note_ending(int code, const char *reason, const char *message) {
    char escaped[6 * sizeof words + 1], text[sizeof escaped + 256], *out = escaped;
    for (const unsigned char *in = (const unsigned char *)message; *in; in++) {
        if (*in < 32 || *in == '"' || *in == '\\' || *in > 126) out += sprintf(out, "\\u%04x", *in);
        else *out++ = *in;
    }
    *out = 0;
    const char *form = "exit {\"code\": %d, \"reason\": \"%s\", \"message\": \"%s\", \"at\": %.6f}\n";
    snprintf(text, sizeof text, form, code, reason, escaped, now());
    note(text);
}

/* ---- the file tree ---- */

static int own(const char *path, uid_t uid, gid_t gid) {
    if (!first_uid && !uid && !gid) return 0;
    return lchown(path, first_uid + uid, first_gid + gid) ? failed("chown %s", path) : 0;
}

static int is_dir(const char *path) {
    struct stat s;
    return stat(path, &s) == 0 && S_ISDIR(s.st_mode);
}

static int exists(const char *path) { return access(path, F_OK) == 0; }

static int make_dir(const char *path, const char *mode) { /* our umask is 0 */
    mode_t bits = strtol(mode, NULL, 8);
    if (mkdir(path, bits) || (bits & 06000 && chmod(path, bits))) return failed("mkdir %s", path);
    return own(path, 0, 0);
}

static int make_dirs(const char *path) {
    if (is_dir(path)) return 0;
    char *parent = strdup(path), *slash = strrchr(parent, '/');
    int result = 0;
    if (slash && slash != parent) {
        *slash = 0;
        result = make_dirs(parent);
    }
    free(parent);
    return result ? result : make_dir(path, "755");
}

static int make_parents(const char *path) {
    char *parent = strdup(path), *slash = strrchr(parent, '/');
    int result = 0;
    if (slash && slash != parent) {
        *slash = 0;
        result = make_dirs(parent);
    }
    free(parent);
    return result;
}

static int touch(const char *path) {
    int file = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0644);
    if (file < 0) return failed("make %s", path);
    close(file);
    return 0;
}

static int bind_to(const char *source, const char *target, unsigned long more) {
    return mount(source, target, NULL, MS_BIND | more, NULL) ? failed("mount %s on %s", source, target) : 0;
}

static int seal(const char *target) {
    struct statvfs s;
    if (statvfs(target, &s)) return failed("look at %s", target);
    unsigned long kept = s.f_flag & (MS_NOSUID | MS_NODEV | MS_NOEXEC);
    kept |= s.f_flag & ST_NOATIME ? MS_NOATIME : MS_RELATIME;
    if (mount("none", target, NULL, MS_BIND | MS_REMOUNT | MS_RDONLY | kept, NULL)) return failed("seal %s", target);
    return 0;
}

static int show_shifted(const char *source, const char *target, int deep) {
    struct { uint64_t set, clear, propagation, users; } wish = {ATTR_IDMAP, 0, 0, held[3]};
    unsigned recursive = deep ? RECURSIVE : 0;
    int tree = syscall(NR_OPEN_TREE, AT_FDCWD, source, TREE_CLONE | O_CLOEXEC | recursive);
    if (tree < 0) return failed("open %s", source);
    long result = syscall(NR_MOUNT_SETATTR, tree, "", EMPTY_PATH | recursive, &wish, sizeof wish);
    if (result == 0) result = syscall(NR_MOVE_MOUNT, tree, "", AT_FDCWD, target, MOVE_EMPTY_SOURCE);
    if (result) failed("shift %s", source);
    close(tree);
    return result ? -1 : 0;
}

static int seal_below(const char *target) { /* sealing a mount does not seal those inside it */
    FILE *file = fopen("/proc/self/mountinfo", "re");
    char *line = NULL;
    size_t room = 0, length = strlen(target);
    int result = 0;
    if (!file) return failed("mountinfo");
    while (result == 0 && getline(&line, &room, file) > 0) {
        char place[4096] = "", *out = place;
        if (sscanf(line, "%*s %*s %*s %*s %4095s", place) != 1) continue;
        for (char *in = place; *in; in++) {
            if (strncmp(in, "\\040", 4) == 0) { *out++ = ' '; in += 3; }
            else *out++ = *in;
        }
        *out = 0;
        if (strncmp(place, target, length) == 0 && (place[length] == 0 || place[length] == '/')) result = seal(place);
    }
    free(line);
    fclose(file);
    return result;
}

static int layer(char **w) { /* lower, target, low, upper, work, option */
    struct stat s;
    char options[16384];
    if (make_dirs(w[3]) || make_dirs(w[4])) return -1;
    if (stat(w[0], &s) || chmod(w[3], s.st_mode & 07777)) return failed("look at %s", w[0]);
    const char *below = w[0];
    if (held[3] >= 0) {
        if (mkdir(w[2], 0755)) return failed("mkdir %s", w[2]);
        if (show_shifted(w[0], w[2], 0)) return -1;
        below = w[2];
    }
    const char *form = "lowerdir=%s,upperdir=%s,workdir=%s%s%s";
    snprintf(options, sizeof options, form, below, w[3], w[4], *w[5] ? "," : "", w[5]);
    if (mount("overlay", w[1], "overlay", MS_NODEV, options) == 0) return 0;
    /* Directories with mounts of an outer namespace inside cannot be overlaid: shown as they are, sealed. */
    return bind_to(w[0], w[1], MS_REC) ? -1 : seal_below(w[1]);
}

static int reveal(char **w) {
    struct stat s;
    if (exists(w[1]) || !is_dir(w[0])) return 0;
    if (make_dirs(w[1])) return -1;
    /* Hidden homes are private to root; what stands in them must be reachable by every user of the container. */
    char *top = strdup(w[1]);
    char *inner = top + strlen(top) - strlen(w[0]) + 1;
    inner += strcspn(inner, "/");
    *inner = 0;
    int result = stat(top, &s) || chmod(top, (s.st_mode & 07777) | 0055) ? failed("open %s", top) : 0;
    free(top);
    return result ? result : layer(w);
}

static int whole(char **w) { /* root, low, upper, work, cover: the host's tree below what the upper layers have already */
    struct stat s;
    char options[16384];
    if (make_dir(w[3], "755")) return -1;
    if (stat("/", &s) || chmod(w[2], s.st_mode & 07777)) return failed("look at /");
    if (held[3] >= 0 && (make_dir(w[1], "755") || show_shifted("/", w[1], 0))) return -1;
    const char *form = "lowerdir=%s%s%s,upperdir=%s,workdir=%s";
    snprintf(options, sizeof options, form, w[4], *w[4] ? ":" : "", held[3] >= 0 ? w[1] : "/", w[2], w[3]);
    return mount("overlay", w[0], "overlay", MS_NODEV, options) ? failed("mount the host's tree") : 0;
}

static int cover(char **w) { /* path, mode */
    if (!is_dir(w[0]) && make_dir(w[0], w[1])) return -1;
    return lsetxattr(w[0], "trusted.overlay.opaque", "y", 1, 0) ? failed("cover %s", w[0]) : 0;
}

static int nothing(char **w) { return mknod(w[0], S_IFCHR, 0) ? failed("remove %s", w[0]) : 0; }

static int like(char **w) { /* upper, path: the host's directories down to this one, as they are there */
    struct stat s;
    char *there = joined("/", w[1]), *here = joined(w[0], there), *end = here + strlen(w[0]) + 1, mode[16];
    int result = 0;
    for (int over = 0; result == 0 && !over;) {
        end += strcspn(end, "/");
        over = !*end;
        *end = there[end - here - strlen(w[0])] = 0;
        if (stat(there, &s)) result = failed("look at %s", there);
        snprintf(mode, sizeof mode, "%o", s.st_mode & 07777);
        if (result == 0 && !is_dir(here)) result = make_dir(here, mode);
        if (!over) *end = there[end - here - strlen(w[0])] = '/';
        end++;
    }
    free(there);
    free(here);
    return result;
}

static int hide(char **w) { /* upper, path, mode: an empty directory over one of the host, or a mark over none */
    char *there = joined("/", w[1]), *here = joined(w[0], there), *slash = strrchr(w[1], '/'), *inner = strrchr(there, '/');
    int result = 0, known = is_dir(there);
    if (slash) *slash = *inner = 0;
    if (!slash || is_dir(there)) {
        if (slash) result = like(w);
        char *wish[] = {here, w[2]};
        if (result == 0) result = known ? cover(wish) : exists(here) ? 0 : nothing(wish);
    }
    if (slash) *slash = '/';
    free(there);
    free(here);
    return result;
}

static gid_t volume_group;

static int give_one(const char *path, const struct stat *s, int kind, struct FTW *place) {
    (void)place;
    if (lchown(path, -1, volume_group) == 0 && kind != FTW_SL)
        if (chmod(path, (s->st_mode & 07777) | (S_ISDIR(s->st_mode) ? 02070 : 0040))) return 0;
    return 0;
}

static int open_beneath(int top, const char *path) { /* links that lead out of the volume are refused */
    struct { uint64_t flags, mode, resolve; } how = {O_PATH | O_CLOEXEC, 0, BENEATH};
    return syscall(NR_OPENAT2, top, path, &how, sizeof how);
}

static int beneath(const char *source, const char *inner) { /* a part of a volume, made where it is missing */
    int top = open(source, O_PATH | O_CLOEXEC), here = top;
    if (top < 0) return failed("open %s", source);
    char *path = strdup(inner), *rest = path;
    while (here >= 0 && rest && *rest) {
        char *name = rest, *slash = strchr(rest, '/');
        if (slash) *slash = 0;
        int there = open_beneath(top, path);
        if (there < 0 && errno == ENOENT && mkdirat(here, name, 0755) == 0) there = open_beneath(top, path);
        if (there < 0) failed("subPath %s", path);
        if (here != top) close(here);
        here = there;
        if (slash) *slash = '/';
        rest = slash ? slash + 1 : NULL;
    }
    if (here != top) close(top);
    free(path);
    return here;
}

static int volume(char **w) { /* source, target, "ro" or "", group or "", part or "" */
    char shown[64];
    int result = 0, part = beneath(w[0], w[4]);
    if (part < 0) return -1;
    snprintf(shown, sizeof shown, "/proc/self/fd/%d", part);
    if (is_dir(shown)) result = make_dirs(w[1]);
    else if (!exists(w[1])) result = make_parents(w[1]) || touch(w[1]);
    /* A file system that cannot shift owners is shown as it is: the pod's users are nobody there. */
    if (result == 0 && (held[3] < 0 || show_shifted(shown, w[1], 1))) result = bind_to(shown, w[1], MS_REC);
    close(part);
    if (result) return -1;
    if (*w[3]) {
        volume_group = atoi(w[3]);
        nftw(w[1], give_one, 16, FTW_PHYS);
    }
    return strcmp(w[2], "ro") == 0 ? seal(w[1]) : 0;
}

static int write_file(char **w) { /* path, mode, uid, gid, text */
    if (make_parents(w[0])) return -1;
    mode_t bits = strtol(w[1], NULL, 8);
    int file = open(w[0], O_CREAT | O_WRONLY | O_TRUNC | O_CLOEXEC, bits);
    if (file < 0) return failed("write %s", w[0]);
    int bad = write(file, w[4], strlen(w[4])) < 0 || fchmod(file, bits);
    close(file);
    if (bad) return failed("write %s", w[0]);
    return own(w[0], atoi(w[2]), atoi(w[3]));
}

static int empty(char **w) {
    struct stat s;
    if (lstat(w[0], &s) || !S_ISDIR(s.st_mode)) return 0;
    return mount("tmpfs", w[0], "tmpfs", MS_NODEV, w[1]) ? failed("empty %s", w[0]) : 0;
}

static int mask(char **w) {
    if (is_dir(w[0])) return mount("tmpfs", w[0], "tmpfs", MS_RDONLY, "size=0") ? failed("mask %s", w[0]) : 0;
    return exists(w[0]) ? bind_to("/dev/null", w[0], 0) : 0;
}

static int mount_one(char **w) { /* source, target, kind, flags, options */
    const char *kind = *w[2] ? w[2] : NULL, *options = *w[4] ? w[4] : NULL;
    return mount(w[0], w[1], kind, strtoul(w[3], NULL, 10), options) ? failed("mount %s on %s", w[0], w[1]) : 0;
}

static int fresh(char **w) { /* kind, target, flags, other */
    if (mount(w[0], w[1], w[0], strtoul(w[2], NULL, 10), NULL) == 0) return 0;
    return bind_to(w[3], w[1], MS_REC);
}

static int device(char **w) {
    if (!exists(w[0])) return 0;
    return make_parents(w[1]) || touch(w[1]) ? -1 : bind_to(w[0], w[1], 0);
}

static int do_shift(char **w) { first_uid = atoi(w[0]); first_gid = atoi(w[1]); return 0; }
static int do_mkdir(char **w) { return make_dir(w[0], w[1]); }
static int do_mkdirs(char **w) { return make_dirs(w[0]); }
static int do_rmdir(char **w) { return rmdir(w[0]) ? failed("rmdir %s", w[0]) : 0; }
static int do_symlink(char **w) { return symlink(w[0], w[1]) ? failed("link %s", w[1]) : own(w[1], 0, 0); }
static int do_chown(char **w) { return own(w[0], atoi(w[1]), atoi(w[2])); }
static int do_pivot(char **w) {
    return syscall(SYS_pivot_root, w[0], w[1]) || chdir("/") ? failed("pivot_root") : 0;
}
static int do_unmount(char **w) { return umount2(w[0], MNT_DETACH) ? failed("unmount %s", w[0]) : 0; }
static int do_seal(char **w) { return !exists(w[0]) ? 0 : bind_to(w[0], w[0], MS_REC) ? -1 : seal(w[0]); }

/* ---- from a fork to a program ---- */

static int do_rlimit(char **w) { /* "data", bytes */
    struct rlimit r;
    rlim_t asked = strtoull(w[1], NULL, 10);
    if (getrlimit(RLIMIT_DATA, &r)) return failed("rlimit");
    r.rlim_cur = r.rlim_max = r.rlim_max != RLIM_INFINITY && r.rlim_max < asked ? r.rlim_max : asked;
    return setrlimit(RLIMIT_DATA, &r) ? failed("rlimit") : 0;
}

static int do_users(char **w) { /* from here on numbers are the pod's own */
    (void)w;
    first_uid = first_gid = 0;
    if (held[3] < 0) return 0;
    return setns(held[3], CLONE_NEWUSER) || setresgid(0, 0, 0) || setresuid(0, 0, 0) ? failed("users") : 0;
}

static int do_groups(char **w) {
    gid_t list[1024];
    int count = 0;
    for (char *word = strtok(w[0], ","); word && count < 1024; word = strtok(NULL, ",")) list[count++] = atoi(word);
    return setgroups(count, list) ? failed("groups") : 0;
}

static int do_gid(char **w) {
    gid_t gid = atoi(w[0]);
    return gid != getgid() && setgid(gid) ? failed("gid %s", w[0]) : 0;
}

static int do_uid(char **w) {
    uid_t uid = atoi(w[0]);
    return uid != getuid() && setuid(uid) ? failed("uid %s", w[0]) : 0;
}

static int do_capabilities(char **w) {
    unsigned long long kept = strtoull(w[0], NULL, 16);
    for (int number = 0; number < 64; number++)
        if (!(kept >> number & 1) && prctl(PR_CAPBSET_DROP, number, 0, 0, 0) && errno == EINVAL) break;
    struct { uint32_t version; int pid; } head = {0x20080522, 0};
    uint32_t low = kept, high = kept >> 32, data[6] = {low, low, 0, high, high, 0};
    return syscall(SYS_capset, &head, data) ? failed("capset") : 0;
}

static int digit(char c) { return c <= '9' ? c - '0' : (c | 32) - 'a' + 10; }

static int do_filter(char **w) {
    size_t length = strlen(w[0]) / 2;
    unsigned char *code = malloc(length + 1);
    if (!code) return failed("memory");
    for (size_t i = 0; i < length; i++) code[i] = digit(w[0][2 * i]) << 4 | digit(w[0][2 * i + 1]);
    struct sock_fprog program = {length / sizeof(struct sock_filter), (struct sock_filter *)code};
    return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) ? failed("seccomp") : 0;
}

static int do_no_new_privileges(char **w) {
    (void)w;
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ? failed("no new privileges") : 0;
}

static int do_cwd(char **w) {
    if (make_dirs(w[0]) && errno != EACCES && errno != EROFS && errno != EPERM) return -1;
    return chdir(w[0]) ? failed("chdir %s", w[0]) : 0;
}

static int group(char **w) { return mkdir(w[0], 0755) && errno != EEXIST ? failed("make %s", w[0]) : 0; }

static int set(char **w) { /* path, text */
    int file = open(w[0], O_WRONLY | O_CLOEXEC);
    if (file < 0) return failed("set %s", w[0]);
    int result = write(file, w[1], strlen(w[1])) < 0 ? failed("set %s", w[0]) : 0;
    close(file);
    return result;
}

static int enter(char **w) { /* all but the users: an init stays the machine's root */
    (void)w;
    for (int kind = 0; kind < 3; kind++)
        if (held[kind] >= 0 && setns(held[kind], 0)) return failed("setns %s", KINDS[kind]);
    return 0;
}

static const struct { const char *word; int (*work)(char **); int rest; } WORK[] = {
    {"enter", enter, 0}, {"shift", do_shift, 2}, {"mount", mount_one, 5},
    {"fresh", fresh, 4}, {"mkdir", do_mkdir, 2}, {"mkdirs", do_mkdirs, 1}, {"rmdir", do_rmdir, 1},
    {"symlink", do_symlink, 2}, {"write", write_file, 5}, {"chown", do_chown, 3}, {"layer", layer, 6},
    {"reveal", reveal, 6}, {"empty", empty, 2}, {"pivot", do_pivot, 2}, {"unmount", do_unmount, 1},
    {"device", device, 2}, {"mask", mask, 1}, {"seal", do_seal, 1}, {"volume", volume, 5}, {"rlimit", do_rlimit, 2},
    {"users", do_users, 0}, {"groups", do_groups, 1}, {"gid", do_gid, 1}, {"uid", do_uid, 1},
    {"capabilities", do_capabilities, 1}, {"filter", do_filter, 1}, {"no-new-privileges", do_no_new_privileges, 0},
    {"cwd", do_cwd, 1}, {"whole", whole, 5}, {"cover", cover, 2}, {"nothing", nothing, 1}, {"like", like, 2},
    {"hide", hide, 3}, {"group", group, 1}, {"set", set, 2},
};

static int follow(const struct step *step) {
    const char *word = step->word[0];
    int may_fail = *word == '?';
    for (size_t i = 0; i < sizeof WORK / sizeof *WORK; i++) {
        if (strcmp(word + may_fail, WORK[i].word) || step->count != WORK[i].rest + 1) continue;
        return WORK[i].work(step->word + 1) && !may_fail ? -1 : 0;
    }
    return said("unknown step %s", word);
}

/* ---- the program ---- */

static int run_program(const char *path, char **argv, char **env) {
    struct stat s;
    if (strchr(argv[0], '/')) {
        if (stat(argv[0], &s)) return said("exec: \"%s\": stat %s: no such file or directory", argv[0], argv[0]);
        if (access(argv[0], X_OK) || S_ISDIR(s.st_mode)) return said("exec: \"%s\": permission denied", argv[0]);
        execve(argv[0], argv, env);
        return failed("exec: \"%s\"", argv[0]);
    }
    char *places = strdup(path && *path ? path : "/bin:/usr/bin"), *rest = places;
    for (char *place = strsep(&rest, ":"); place; place = strsep(&rest, ":")) {
        char *with = joined(place, "/"), *found = joined(with, argv[0]);
        if (access(found, X_OK) == 0 && stat(found, &s) == 0 && !S_ISDIR(s.st_mode)) {
            execve(found, argv, env);
            return failed("exec: \"%s\"", argv[0]);
        }
    }
    return said("exec: \"%s\": executable file not found in $PATH", argv[0]);
}

static int become(const struct plan *plan, int from) { /* returns only when it failed */
    char **env = calloc(plan->count + 1, sizeof *env), *path = NULL;
    int variables = 0;
    if (!env) return failed("memory");
    for (int number = from; number < plan->count; number++) {
        struct step *step = plan->step + number;
        if (strcmp(step->word[0], "env") == 0) {
            env[variables++] = step->word[1];
            if (strncmp(step->word[1], "PATH=", 5) == 0) path = step->word[1] + 5;
        } else if (strcmp(step->word[0], "exec") == 0) {
            return run_program(path, step->word + 1, env);
        } else if (follow(step)) return -1;
    }
    return said("no program");
}

static void usual_signals(void) {
    sigset_t none;
    for (int i = 0; i < FORWARD_COUNT; i++) signal(FORWARDED[i], SIG_DFL);
    signal(SIGCHLD, SIG_DFL);
    signal(SIGPIPE, SIG_DFL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

static pid_t spawn(const struct plan *plan, int from, int in, int out) {
    int ends[2], tty = strcmp(plan->step[from - 1].word[1], "tty") == 0;
    if (pipe2(ends, O_CLOEXEC)) return failed("pipe");
    pid_t pid = fork();
    if (pid == 0) {
        setsid();
        if (dup2(in, 0) < 0 || dup2(out, 1) < 0 || dup2(out, 2) < 0) failed("streams");
        else if (tty && ioctl(0, TIOCSCTTY, 0)) failed("terminal");
        else {
            umask(022);
            usual_signals();
            become(plan, from);
        }
        if (write(ends[1], words, strlen(words)) < 0) _exit(START_ERROR);
        _exit(START_ERROR);
    }
    close(ends[1]);
    if (pid < 0) return failed("fork");
    size_t used = 0;
    ssize_t length;
    while ((length = read(ends[0], words + used, sizeof words - 1 - used)) > 0) used += length;
    close(ends[0]);
    if (used == 0) return pid;
    words[used] = 0;
    waitpid(pid, NULL, 0);
    return -1;
}

static void pump(int master, int typed, int shown) {
    char data[65536];
    struct stat s;
    int typing = fstat(typed, &s) == 0 && S_ISFIFO(s.st_mode);
    struct pollfd ready[2] = {{master, POLLIN, 0}, {typed, POLLIN, 0}};
    for (;;) {
        if (poll(ready, typing ? 2 : 1, -1) < 0) return;
        for (int i = 0; i < 1 + typing; i++) {
            if (!ready[i].revents) continue;
            ssize_t length = read(ready[i].fd, data, sizeof data);
            if (length <= 0 || write(i ? master : shown, data, length) < 0) return; /* nobody holds the other end */
        }
    }
}

static pid_t serve_terminal(int *in, int *out) {
    int number, zero = 0;
    char path[32];
    int master = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (master < 0 || ioctl(master, TIOCSPTLCK, &zero) || ioctl(master, TIOCGPTN, &number)) return failed("terminal");
    snprintf(path, sizeof path, "/dev/pts/%d", number);
    int slave = open(path, O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (slave < 0) return failed("terminal");
    pid_t pid = fork();
    if (pid == 0) {
        close(slave);
        pump(master, *in, *out);
        _exit(0);
    }
    close(master);
    close(*in);
    close(*out);
    *in = *out = slave;
    return pid;
}

static int code_of(int status) { return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status); }

static int watch(pid_t workload, const sigset_t *heard) { /* pass signals on, bury the dead */
    for (;;) {
        int number, status;
        pid_t pid;
        if (sigwait(heard, &number)) continue;
        if (number != SIGCHLD) kill(workload, number);
        while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
            if (pid == workload) return code_of(status);
    }
}

static void drain(pid_t terminal) { /* what the workload showed last may still be on its way */
    struct timespec pause = {0, 2000000};
    for (int waited = 0; waited < DRAINING_MS && waitpid(terminal, NULL, WNOHANG) == 0; waited += 2)
        nanosleep(&pause, NULL);
}

/* ---- reading the steps ---- */

static int parse(char *text, size_t length, struct plan *plan) { /* words stay where they are in the text */
    char *place = text, *end = text + length;
    int room = 0;
    char **words_left = malloc((length / 2 + 2) * sizeof *words_left); /* a word takes three bytes, a step two */
    if (!words_left) return failed("memory");
    plan->count = 0;
    while (place < end) {
        if (plan->count == room) {
            room = room ? 2 * room : 128;
            plan->step = realloc(plan->step, room * sizeof *plan->step);
            if (!plan->step) return failed("memory");
        }
        struct step *step = plan->step + plan->count++;
        step->count = strtol(place, &place, 10);
        if (step->count < 1 || *place++ != '\n') return said("steps: no count");
        step->word = words_left;
        for (int i = 0; i < step->count; i++) {
            char *from;
            long size = strtol(place, &from, 10);
            if (*from++ != ':' || size < 0 || from + size >= end || from[size]) return said("steps: no word");
            *words_left++ = from;
            place = from + size + 1;
        }
        *words_left++ = NULL;
    }
    return 0;
}

static int load(int file, struct plan *plan) {
    struct stat s;
    if (fstat(file, &s)) return failed("steps");
    char *text = malloc(s.st_size + 1);
    ssize_t length = text ? pread(file, text, s.st_size, 0) : -1;
    close(file);
    if (length != s.st_size) return failed("steps");
    text[length] = 0;
    return parse(text, length, plan);
}

static int open_streams(int directory, const char *how, int *in, int *out) {
    *out = openat(directory, "log", O_CREAT | O_APPEND | O_WRONLY | O_CLOEXEC, 0600);
    /* A pipe is opened for both directions, so that it neither blocks nor ends when one who attached goes away. */
    int fifo = strcmp(how, "fifo") == 0;
    *in = fifo ? openat(directory, "stdin", O_RDWR | O_CLOEXEC) : open("/dev/null", O_RDONLY | O_CLOEXEC);
    return *in < 0 || *out < 0 ? failed("streams") : 0;
}

static pid_t begin(int directory, const struct plan *plan, pid_t *terminal) {
    int in = -1, out = -1;
    for (int number = 0; number < plan->count; number++) {
        struct step *step = plan->step + number;
        if (strcmp(step->word[0], "streams") == 0) {
            if (open_streams(directory, step->word[1], &in, &out)) return -1;
        } else if (strcmp(step->word[0], "spawn") == 0) {
            if (strcmp(step->word[1], "tty") == 0 && (*terminal = serve_terminal(&in, &out)) < 0) return -1;
            pid_t pid = spawn(plan, number + 1, in, out);
            close(in);
            if (out != in) close(out);
            return pid;
        } else if (follow(step)) return -1;
    }
    return said("nothing to run");
}

static void live(const char *place, int pipe_end, int file) { /* the whole life of an init */
    struct plan plan = {NULL, 0};
    sigset_t heard;
    pid_t terminal = 0, workload = -1;
    signal(SIGCHLD, SIG_DFL);
    for (int i = 0; i < FORWARD_COUNT; i++) signal(FORWARDED[i], SIG_DFL);
    setsid();
    umask(0); /* modes are said by the steps; the workload gets the usual mask */
    sigemptyset(&heard);
    sigaddset(&heard, SIGCHLD);
    for (int i = 0; i < FORWARD_COUNT; i++) sigaddset(&heard, FORWARDED[i]);
    sigprocmask(SIG_BLOCK, &heard, NULL);
    int directory = open(place, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (directory < 0) _exit(START_ERROR);
    record = openat(directory, "record", O_WRONLY | O_APPEND | O_CLOEXEC);
    note_identity();
    if (load(file, &plan) == 0) workload = begin(directory, &plan, &terminal);
    if (workload < 0) {
        note_ending(START_ERROR, "StartError", words);
        _exit(START_ERROR);
    }
    char text[64];
    snprintf(text, sizeof text, "started {\"at\": %.6f}\n", now());
    note(text);
    signal(SIGPIPE, SIG_IGN);
    ssize_t told = write(pipe_end, "!", 1); /* the agent may be gone; its successor looks for "started" */
    (void)told;
    close(pipe_end);
    for (int kind = 0; kind < MOST_KINDS; kind++)
        if (held[kind] >= 0) close(held[kind]);
    int code = watch(workload, &heard);
    if (terminal > 0) drain(terminal);
    note_ending(code, "", "");
    _exit(code);
}

/* ---- asked for one container after another ---- */

static int hear(int link, char *text, size_t room, int *descriptors, int most) {
    char control[CMSG_SPACE(8 * sizeof(int))];
    struct iovec part = {text, room - 1};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    int found = 0;
    ssize_t length = recvmsg(link, &message, MSG_CMSG_CLOEXEC);
    if (length <= 0) return -1;
    text[length] = 0;
    for (struct cmsghdr *head = CMSG_FIRSTHDR(&message); head; head = CMSG_NXTHDR(&message, head)) {
        if (head->cmsg_level != SOL_SOCKET || head->cmsg_type != SCM_RIGHTS) continue;
        found = (head->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        if (found > most) found = most;
        memcpy(descriptors, CMSG_DATA(head), found * sizeof(int));
    }
    return found;
}

static int answer(int link, char *text, int *descriptors, int count) { /* text: directory, newline, kinds */
    char *kinds = strchr(text, '\n');
    if (!kinds || count < 2) return -EINVAL;
    *kinds++ = 0;
    long pid = syscall(SYS_clone, (unsigned long)(CLONE_NEWPID | CLONE_NEWNS | SIGCHLD), 0, 0, 0, 0);
    if (pid < 0) return -errno;
    if (pid) return pid;
    close(link);
    int given = 2;
    for (char *word = strtok(kinds, " "); word && given < count; word = strtok(NULL, " "), given++)
        for (int kind = 0; kind < MOST_KINDS; kind++)
            if (strcmp(word, KINDS[kind]) == 0) held[kind] = descriptors[given];
    live(text, descriptors[0], descriptors[1]);
    _exit(START_ERROR);
}

static void bury(int number) { /* inits write their endings down themselves; only their time is counted here */
    (void)number;
    int kept = errno;
    while (waitpid(-1, NULL, WNOHANG) > 0) {}
    errno = kept;
}

int main(int argc, char **argv) {
    char text[8192];
    int descriptors[8], count;
    if (argc != 3) return 2;
    int link = atoi(argv[2]);
    struct sigaction burying = {.sa_handler = bury, .sa_flags = SA_RESTART | SA_NOCLDSTOP};
    sigaction(SIGCHLD, &burying, NULL);
    signal(SIGINT, SIG_IGN);
    signal(SIGHUP, SIG_IGN);
    while ((count = hear(link, text, sizeof text, descriptors, 8)) >= 0) {
        int32_t result = answer(link, text, descriptors, count);
        for (int i = 0; i < count; i++) close(descriptors[i]);
        if (send(link, &result, sizeof result, MSG_NOSIGNAL) < 0) break;
    }
    return 0;
}
