/* machine.h - inside the interpreter. run.c: launches and the schedule; run_item.c: one block of the grid; run_expr.c: values; run_memory.c: views, accesses and their
 * clocks; run_stmt.c: statements; run_async.c: operations in flight; run_sync.c: stages and barriers.
 * Functions that may fail return false; the machine then stops. */
#ifndef AU_TILE_MACHINE_H
#define AU_TILE_MACHINE_H

#include "run.h"

typedef struct Machine Machine;
typedef struct Agent Agent;
typedef struct AsyncOp AsyncOp;

/* Elements of a value, axes in the order of its type, the last one contiguous: floats, or else integers. */
typedef struct Tile {
    const AuTileType *type;
    float *f;
    int32_t *i;
} Tile;

/* ---- order. An access is ordered before another if the clock of the later one covers it. */

typedef struct Clock {
    uint32_t *agents; /* by number of the agent */
    uint64_t *ops;    /* a bit for each async operation of the block */
    uint32_t words;
} Clock;

typedef struct Actor {
    bool is_op;
    uint32_t number, time; /* an operation's time is always 1 */
    Clock *clock;
} Actor;

typedef struct Box {
    int64_t low[TILE_MAX_RANK + 1], high[TILE_MAX_RANK + 1];
} Box;

typedef enum AccessKind { READ, WRITE, ADD } AccessKind;

typedef struct Access {
    uint32_t block; /* launched block */
    Actor actor;    /* its clock is not kept */
    Box box;
    AccessKind kind;
    const char *agent;
    const AuTileStmt *stmt;
} Access;

/* ---- memory */

typedef struct Memory {
    const char *name;
    AuTileElem elem;
    AuTileSpace space;
    AuTileMode mode;
    uint32_t rank; /* a pipeline's tile has its stages first */
    int64_t size[TILE_MAX_RANK + 1], stride[TILE_MAX_RANK + 1], count;
    const char *axis[TILE_MAX_RANK + 1];
    float *f;
    int32_t *i;
    uint8_t *init;
    const AuTileMemory *decl;
    TILE_LIST(Access) log;
} Memory;

/* Which elements a view selects, in the order of its axes. */
typedef struct Region {
    Memory *memory;
    int64_t count;
    int64_t *offset;
    uint8_t *ok; /* does the element take part? NULL: all do */
    Box box;     /* of those that do */
    bool empty;
    int64_t
        rows; /* that several tiles of indices choose, so that one box would hold others', too; 0: there are none */
} Region;

/* ---- what roles share in a block */

typedef struct Ring {
    const AuTilePipe *pipe;
    Memory **tiles;
    uint32_t producers, consumers, stages;
    uint32_t *commits, *landing, *filled, *releases, *freed;
    const Agent *fills, *empties; /* of `one`: who does, once somebody has */
    Clock *full, *free;
} Ring;

typedef struct Barrier {
    const AuTileBarrier *decl;
    uint32_t generation, arrived;
    bool *here; /* by number of the agent */
    Clock clock;
    TILE_LIST(Clock) released; /* by generation */
} Barrier;

/* One block of the grid: what its scalars are. A persistent block works through several. */
typedef struct Item {
    Tile *vars; /* by slot of the kernel */
    struct TileRun {
        TILE_LIST(const char *) segments;
        TILE_LIST(int32_t) tiles;
        uint32_t *ends; /* by segment: of it and those before, how many tiles */
    } * lists;          /* in the order of the kernel's */
} Item;

/* ---- executors */

typedef struct Signal {
    Ring *ring;
    uint32_t stage;
    bool commits;
} Signal;

struct AsyncOp {
    const AuTileStmt *stmt;
    Agent *agent;
    uint32_t number;
    Clock clock;
    bool done;
    AsyncOp *
        before; /* products into tensor memory end in the order of their issue, and those that add to one in flight behind it */
    AsyncOp *sums; /* the product in flight whose result it adds to, or NULL */
    Region source, dest;
    int64_t *order; /* element of the source for each of the destination; NULL: the same */
    Tile a, b;      /* operands in registers at the time of issue */
    Region a_view, b_view;
    float *result; /* of a product: at first what it adds to */
    Ring *landing; /* the stage that a copy fills */
    uint32_t stage;
    TILE_LIST(Signal) signals;
};

typedef struct Var {
    Tile tile;
    bool set;
    AsyncOp *flight, *posted;
    Ring *ring; /* a stage handle */
    uint32_t stage;
    int32_t next; /* of a loop over a tile list: the tile after this one */
} Var;

typedef enum WaitKind { NO_WAIT, FOR_FLIGHT, FOR_FREE, FOR_FULL, FOR_BARRIER } WaitKind;

/* What an agent waits for. */
typedef struct Wait {
    WaitKind kind;
    AsyncOp *op;
    Ring *ring;
    Barrier *barrier;
    uint32_t stage, number; /* fills of the stage, or generation of the barrier */
} Wait;

/* A block of statements that is being executed; of a loop also where it stands. */
typedef struct Frame {
    const AuTileStmts *body;
    uint32_t at;
    const AuTileStmt *loop;
    const struct TileRun *run;
    int64_t index, end;
} Frame;

struct Agent {
    Machine *m;
    const AuTileRole *role; /* NULL: the launch itself, for scalars of the kernel */
    uint32_t index, number, time;
    const char *name;
    Clock clock;
    Item *item;
    uint32_t items_done;
    Var *vars;
    TILE_LIST(Memory *) memories;
    TILE_LIST(Frame) frames;
    TILE_LIST(const char *) segments;
    const AuTileStmt *stmt;
    Wait wait;
    uint32_t progress;                         /* of a statement that waits several times */
    uint32_t *acquired, *waited;               /* how often, by ring */
    uint32_t *acquired_before, *waited_before; /* ... when this block of the grid began */
    AsyncOp *last_product;
    double weight;
};

/* Memory for values that live for one statement. */
typedef struct Scratch {
    char *at;
    size_t used, size;
} Scratch;

struct Machine {
    AuArena *arena; /* of the kernel's run */
    AuArena *block; /* of one launched block */
    AuDiags *diags;
    const AuTileModule *module;
    const AuTileKernel *kernel;
    const AuTileLaunch *launch;
    uint64_t random;
    double lazy; /* how eagerly async operations end */
    Memory **args, **shared;
    Ring *rings; /* of all pipelines in turn */
    uint32_t ring_count;
    Barrier *barriers;
    Item *items;
    uint32_t item_count;
    Agent *agents;
    uint32_t agent_count, op_count, block_number;
    TILE_LIST(AsyncOp *) pending;
    Scratch scratch;
    bool failed;
};

/* run.c */
void *scratch(Machine *m, size_t bytes);
bool run_error(Agent *a, AuCode code, const AuTileStmt *other, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
double random_unit(Machine *m);

/* run_expr.c */
bool eval(Agent *a, const AuTileExpr *e, Tile *out); /* in scratch, or a variable's own elements */
bool eval_integer(Agent *a, const AuTileExpr *e, int64_t *out);
bool eval_truth(Agent *a, const AuTileExpr *e, bool *out);
bool is_floats(const AuTileType *type);
Tile new_tile(Machine *m, const AuTileType *type);
Tile stored_tile(AuArena *arena, const AuTileType *type);
/* dst[i] = src[...] with the axes of `to`; axes that `from` lacks are repeated. */
void spread(const AuTileType *to, Tile *dst, const Tile *src);
/* For each element of `to` the element of `from`, which has the same axes; NULL if the order is the same. */
int64_t *permutation(AuArena *arena, const AuTileType *from, const AuTileType *to);

/* run_memory.c */
Memory *new_memory(AuArena *arena, const AuTileMemory *decl, uint32_t stages, const int64_t *sizes);
/* Elements of a view. guard NULL: all take part. What takes part must be inside, unless `lenient`. */
bool resolve(Agent *a, AuArena *arena, const AuTileExpr *view, const Tile *guard, bool lenient,
             Region *out);
bool gather(Agent *a, const AuTileExpr *view, Tile *out);
bool touch(Agent *a, const Region *r, AccessKind kind, Actor actor, const AuTileStmt *stmt);
bool fetch(Agent *a, const Region *r, float pad, const AuTileStmt *stmt, Tile *out);
void find_box(Region *r);
Actor me(Agent *a);
Clock new_clock(Machine *m);
void join(Machine *m, Clock *into, const Clock *from);
Clock copy_clock(Machine *m, const Clock *clock);
void mark_op(Machine *m, Clock *clock, uint32_t number);
void tick(Agent *a);

/* run_item.c. [block]: NULL: what is known of all of them */
bool make_item(Agent *a, const int64_t *block, Item *item);

/* run_stmt.c */
bool step(Agent *a); /* one statement, or what is left of it after a wait */
bool is_ready(const Agent *a);
bool is_finished(const Agent *a);
bool set_var(Agent *a, Var *var, const AuTileType *type, const Tile *value);

/* run_async.c */
bool run_move(Agent *a, const AuTileStmt *s);
bool run_product(Agent *a, const AuTileStmt *s);
bool finish_op(Machine *m, AsyncOp *op);

/* run_sync.c */
bool run_stage(Agent *a, const AuTileStmt *s);
bool run_close(Agent *a, const AuTileStmt *s);
bool run_arrive(Agent *a, const AuTileStmt *s);
bool run_sync(Agent *a, const AuTileStmt *s);
void settle(Ring *ring, uint32_t stage);
void signal_stage(Machine *m, const Signal *signal, const Clock *clock);

#endif
