#include "proof/sim/model_script.h"

#include <boost/container/small_vector.hpp>
#include <boost/unordered/unordered_flat_map.hpp>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <lua.hpp>
#include <memory>

#include "base/error.h"
#include "proof/sim/model_slot.h"
#include "redis/script.h"

namespace warren::sim {
namespace {

// Scripts create and drop many small objects: blocks of one size are reused for each other.
class Pool {
 public:
  void* resize(void* block, std::size_t old_size, std::size_t size) {
    if (old_size > most && size > most) return checked(std::realloc(block, size));
    void* moved = size > 0 ? allocate(size) : nullptr;
    if (block && moved) std::memcpy(moved, block, std::min(old_size, size));
    if (block) free(block, old_size);
    return moved;
  }
  ~Pool() {
    for (void* chunk : chunks_) std::free(chunk);
  }

 private:
  static constexpr std::size_t most = 512, grain = 16, chunk_size = 64u << 10;
  struct Free {
    Free* next;
  };
  static void* checked(void* memory) {
    ensure(memory, "there is memory for Lua");
    return memory;
  }
  static std::size_t list_of(std::size_t size) { return (size + grain - 1) / grain; }
  void* allocate(std::size_t size) {
    if (size > most) return checked(std::malloc(size));
    Free*& first = free_[list_of(size)];
    if (!first) refill(list_of(size));
    return std::exchange(first, first->next);
  }
  void free(void* block, std::size_t size) {
    if (size > most) return std::free(block);
    Free*& first = free_[list_of(size)];
    first = new (block) Free{first};
  }
  void refill(std::size_t list) {
    auto* bytes = static_cast<std::byte*>(checked(std::malloc(chunk_size)));
    chunks_.push_back(bytes);
    std::size_t size = list * grain;
    for (std::size_t at = 0; at + size <= chunk_size; at += size)
      free_[list] = new (bytes + at) Free{free_[list]};
  }

  std::array<Free*, most / grain + 1> free_{};
  std::vector<void*> chunks_;
};

// Lua raises errors with longjmp, past the destructors of whatever is in between. So a function
// that Lua calls either has no objects with destructors or does not raise. Allocation raises no
// error either: it aborts if memory runs out.
void* allocate(void* pool, void* block, std::size_t old_size, std::size_t size) {
  return static_cast<Pool*>(pool)->resize(block, old_size, size);
}

void push(lua_State* lua, std::string_view text) { lua_pushlstring(lua, text.data(), text.size()); }

std::string_view text_at(lua_State* lua, int index) {
  std::size_t size = 0;
  const char* bytes = lua_tolstring(lua, index, &size);
  return {bytes, size};
}

void push_field(lua_State* lua, const char* name, std::string_view value) {
  lua_createtable(lua, 0, 3);
  push(lua, value);
  lua_setfield(lua, -2, name);
}

// In RESP2's shapes: Lua knows neither maps nor reals, and false stands for null.
void push(lua_State* lua, const Reply& reply) {
  ensure(lua_checkstack(lua, 4), "Lua's stack has room");
  switch (reply.kind) {
    case Kind::null:
      return lua_pushboolean(lua, 0);
    case Kind::integer:
      return lua_pushnumber(lua, static_cast<lua_Number>(reply.number));
    case Kind::string:
      return push(lua, reply.text);
    case Kind::real:
      return push(lua, real_text(reply.real()));
    case Kind::status:
      return push_field(lua, "ok", reply.text);
    case Kind::error:
      return push_field(lua, "err", reply.text);
    case Kind::array:
    case Kind::set:
    case Kind::map:
      lua_createtable(lua, static_cast<int>(reply.items.size()), 0);
      for (std::size_t i = 0; i < reply.items.size(); ++i) {
        push(lua, reply.items[i]);
        lua_rawseti(lua, -2, static_cast<int>(i + 1));
      }
      return;
    case Kind::boolean:
    case Kind::big_number:
    case Kind::verbatim:
    case Kind::push:
      ensure(false, "the model gives no such reply");
  }
}

std::string number_text(double number) {
  constexpr double exact = 9007199254740992;  // up to here every integer is exact
  if (std::trunc(number) == number && std::abs(number) < exact && !std::signbit(number))
    return std::to_string(static_cast<std::int64_t>(number));
  return fmt::format("{:.17g}", number);
}

Execution& execution_of(lua_State* lua) {
  return **static_cast<Execution**>(lua_touserdata(lua, lua_upvalueindex(1)));
}

Reply call_command(Execution& x, Args words) {
  const auto* command = find_command(words[0]);
  if (!command) return error("ERR Unknown Redis command called from script");
  if (!fits_arity(*command, words.size()))
    return error("ERR Wrong number of args calling Redis command from script");
  if (!command->in_scripts) return error("ERR This Redis command is not allowed from script");
  // The script would not run here if it had not been announced with ASKING.
  if (place_of(x, words, x.slots, true) != Place::here)
    return error("ERR Script attempted to access a non local key in a cluster node");
  return run_command(x, *command, words);
}

// Runs the command on the stack, pushes its reply, and returns whether that is an error.
bool answers_error(lua_State* lua) {
  int count = lua_gettop(lua);
  if (count == 0) {
    push_field(lua, "err", "ERR Please specify at least one argument for this redis lib call");
    return true;
  }
  boost::container::small_vector<std::string_view, 16> words;
  for (int i = 1; i <= count; ++i) {
    int type = lua_type(lua, i);
    if (type == LUA_TNUMBER) {
      push(lua, number_text(lua_tonumber(lua, i)));
      lua_replace(lua, i);
    } else if (type != LUA_TSTRING) {
      push_field(lua, "err", "ERR Lua redis lib command arguments must be strings or integers");
      return true;
    }
    words.push_back(text_at(lua, i));
  }
  Reply reply = call_command(execution_of(lua), Args(words.data(), words.size()));
  push(lua, reply);
  return reply.is_error();
}

int redis_call(lua_State* lua) { return answers_error(lua) ? lua_error(lua) : 1; }

int redis_pcall(lua_State* lua) {
  answers_error(lua);
  return 1;
}

bool has_one_text(lua_State* lua) {
  if (lua_gettop(lua) == 1 && lua_type(lua, 1) == LUA_TSTRING) return true;
  push_field(lua, "err", "ERR wrong number or type of arguments");
  return false;
}

int redis_error_reply(lua_State* lua) {
  if (!has_one_text(lua)) return 1;
  std::string_view what = text_at(lua, 1);
  if (what.starts_with('-')) what.remove_prefix(1);
  bool has_code = what.find(' ') != what.npos;
  push_field(lua, "err", has_code ? std::string(what) : fmt::format("ERR {}", what));
  return 1;
}

int redis_status_reply(lua_State* lua) {
  if (has_one_text(lua)) push_field(lua, "ok", text_at(lua, 1));
  return 1;
}

int redis_sha1hex(lua_State* lua) {
  if (has_one_text(lua)) push(lua, redis::Script("", std::string(text_at(lua, 1))).hash());
  return 1;
}

// Lua's own pcall, except that the script sees the text of what redis.call raised.
int plain_pcall(lua_State* lua) {
  luaL_checkany(lua, 1);
  int status = lua_pcall(lua, lua_gettop(lua) - 1, LUA_MULTRET, 0);
  if (status != 0 && lua_istable(lua, -1)) {
    lua_getfield(lua, -1, "err");
    if (lua_isstring(lua, -1))
      lua_replace(lua, -2);
    else
      lua_pop(lua, 1);
  }
  lua_pushboolean(lua, status == 0);
  lua_insert(lua, 1);
  return lua_gettop(lua);
}

// Lua's own tonumber takes a tenth of a simulation. This is faster for what scripts usually pass.
int plain_tonumber(lua_State* lua) {
  if (lua_gettop(lua) == 1 && lua_type(lua, 1) == LUA_TSTRING) {
    auto digits = text_at(lua, 1);
    std::int64_t value = 0;
    constexpr std::size_t most = 18;  // no overflow
    auto end = std::ranges::find_if(digits.substr(0, most), [&](char c) {
      if (c < '0' || c > '9') return true;
      value = value * 10 + (c - '0');
      return false;
    });
    if (end == digits.end() && !digits.empty()) {
      lua_pushnumber(lua, static_cast<lua_Number>(value));
      return 1;
    }
  }
  return lua_tocfunction(lua, lua_upvalueindex(1))(lua);
}

int missing_global(lua_State* lua) {
  return luaL_error(lua, "Script attempted to access nonexistent global variable '%s'",
                    lua_tostring(lua, 2));
}

int written_global(lua_State* lua) { return luaL_error(lua, "Attempt to modify a readonly table"); }

// Adds to an error where it was raised.
int on_raised(lua_State* lua) {
  if (!lua_istable(lua, 1)) {
    const char* what = lua_tostring(lua, 1);
    lua_createtable(lua, 0, 3);
    lua_pushfstring(lua, "ERR %s", what ? what : luaL_typename(lua, 1));
    lua_setfield(lua, -2, "err");
  }
  lua_Debug where;
  bool is_known = lua_getstack(lua, 1, &where) && lua_getinfo(lua, "Sl", &where);
  if (is_known && *where.what == 'C')
    is_known = lua_getstack(lua, 2, &where) && lua_getinfo(lua, "Sl", &where);
  if (is_known) {
    lua_pushfstring(lua, "%s:%d", where.source, where.currentline);
    lua_setfield(lua, -2, "where");
  }
  return 1;
}

// The text under this name in the table on top of the stack.
std::optional<std::string> field_of(lua_State* lua, const char* name) {
  std::optional<std::string> value;
  lua_pushstring(lua, name);
  lua_rawget(lua, -2);
  if (lua_type(lua, -1) == LUA_TSTRING) value = text_at(lua, -1);
  lua_pop(lua, 1);
  return value;
}

// Converts the value on top of the stack, and removes it.
Reply take_reply(lua_State* lua) {
  ensure(lua_checkstack(lua, 4), "Lua's stack has room");
  Reply reply;
  switch (lua_type(lua, -1)) {
    case LUA_TSTRING:
      reply = text(text_at(lua, -1));
      break;
    case LUA_TNUMBER:
      reply = number(static_cast<std::int64_t>(lua_tonumber(lua, -1)));
      break;
    case LUA_TBOOLEAN:
      if (lua_toboolean(lua, -1)) reply = number(1);
      break;
    case LUA_TTABLE:
      if (auto what = field_of(lua, "err")) {
        reply = error(*what);
      } else if (auto ok = field_of(lua, "ok")) {
        reply = status(*ok);
      } else {
        reply = list_of({});
        for (int i = 1;; ++i) {
          lua_rawgeti(lua, -1, i);
          if (lua_isnil(lua, -1)) break;
          reply.items.push_back(take_reply(lua));
        }
        lua_pop(lua, 1);
      }
      break;
    default:
      break;
  }
  lua_pop(lua, 1);
  return reply;
}

struct SourceHash {
  using is_transparent = void;
  // Few scripts have both the same size and the same end.
  std::size_t operator()(std::string_view source) const {
    return std::hash<std::string_view>()(
               source.substr(source.size() - std::min(source.size(), 64uz))) ^
           source.size();
  }
};

class Lua {
 public:
  static Lua& of_this_thread() {
    static thread_local Lua lua;
    return lua;
  }
  ~Lua() { lua_close(lua_); }
  Lua(const Lua&) = delete;
  Lua& operator=(const Lua&) = delete;

  struct Compiled {
    int function = LUA_NOREF;
    std::string hash;
    std::string problem;
  };
  const Compiled& compiled(std::string_view source);
  void know(const redis::Script& script);
  const Compiled* known(std::string_view hash) const;
  Reply run(Execution& x, const Compiled& script, Args keys, Args args);

 private:
  Lua();
  void add(const char* name, lua_CFunction function);
  void forget(const char* library, std::initializer_list<const char*> names);
  void set_list(const char* name, Args items);

  Pool pool_;
  lua_State* lua_;
  Execution* execution_ = nullptr;
  int globals_, on_raised_;
  boost::unordered_flat_map<std::string, std::unique_ptr<Compiled>, SourceHash, std::equal_to<>>
      by_source_;
  boost::unordered_flat_map<std::string, const Compiled*, SourceHash, std::equal_to<>> by_hash_;
};

Lua::Lua() : lua_(lua_newstate(allocate, &pool_)) {
  // Collects garbage less often than Lua would: there is enough memory.
  lua_gc(lua_, LUA_GCSETPAUSE, 1000);
  constexpr std::pair<const char*, lua_CFunction> libraries[] = {{"", luaopen_base},
                                                                 {"table", luaopen_table},
                                                                 {"string", luaopen_string},
                                                                 {"math", luaopen_math}};
  for (auto [name, open] : libraries) {
    lua_pushcfunction(lua_, open);
    lua_pushstring(lua_, name);
    lua_call(lua_, 1, 0);
  }
  forget("math", {"random", "randomseed"});
  forget("_G", {"dofile", "loadfile", "print", "newproxy", "rawset", "getfenv", "setfenv"});
  lua_newtable(lua_);
  add("call", redis_call);
  add("pcall", redis_pcall);
  add("error_reply", redis_error_reply);
  add("status_reply", redis_status_reply);
  add("sha1hex", redis_sha1hex);
  lua_setglobal(lua_, "redis");
  lua_pushcfunction(lua_, plain_pcall);
  lua_setglobal(lua_, "pcall");
  lua_getglobal(lua_, "tonumber");
  lua_pushcclosure(lua_, plain_tonumber, 1);
  lua_setglobal(lua_, "tonumber");

  // Scripts see the globals through an empty table that cannot be written.
  lua_pushvalue(lua_, LUA_GLOBALSINDEX);
  lua_newtable(lua_);
  lua_pushcfunction(lua_, missing_global);
  lua_setfield(lua_, -2, "__index");
  lua_setmetatable(lua_, -2);
  lua_newtable(lua_);
  lua_newtable(lua_);
  lua_pushvalue(lua_, LUA_GLOBALSINDEX);
  lua_setfield(lua_, -2, "__index");
  lua_pushcfunction(lua_, written_global);
  lua_setfield(lua_, -2, "__newindex");
  lua_pushboolean(lua_, 0);
  lua_setfield(lua_, -2, "__metatable");
  lua_setmetatable(lua_, -2);
  lua_pushvalue(lua_, -1);
  lua_setglobal(lua_, "_G");
  lua_replace(lua_, LUA_GLOBALSINDEX);
  globals_ = luaL_ref(lua_, LUA_REGISTRYINDEX);
  lua_pushcfunction(lua_, on_raised);
  on_raised_ = luaL_ref(lua_, LUA_REGISTRYINDEX);
}

// Adds a function to the table on top of the stack.
void Lua::add(const char* name, lua_CFunction function) {
  lua_pushlightuserdata(lua_, static_cast<void*>(&execution_));
  lua_pushcclosure(lua_, function, 1);
  lua_setfield(lua_, -2, name);
}

void Lua::forget(const char* library, std::initializer_list<const char*> names) {
  lua_getglobal(lua_, library);
  for (const char* name : names) {
    lua_pushnil(lua_);
    lua_setfield(lua_, -2, name);
  }
  lua_pop(lua_, 1);
}

void Lua::set_list(const char* name, Args items) {
  lua_rawgeti(lua_, LUA_REGISTRYINDEX, globals_);
  lua_pushstring(lua_, name);
  lua_createtable(lua_, static_cast<int>(items.size()), 0);
  for (std::size_t i = 0; i < items.size(); ++i) {
    push(lua_, items[i]);
    lua_rawseti(lua_, -2, static_cast<int>(i + 1));
  }
  lua_rawset(lua_, -3);
  lua_pop(lua_, 1);
}

const Lua::Compiled& Lua::compiled(std::string_view source) {
  auto at = by_source_.find(source);
  if (at != by_source_.end()) return *at->second;
  auto compiled = std::make_unique<Compiled>();
  if (luaL_loadbuffer(lua_, source.data(), source.size(), "@user_script") != 0) {
    compiled->problem =
        fmt::format("ERR Error compiling script (new function): {}", text_at(lua_, -1));
    lua_pop(lua_, 1);
  } else {
    compiled->function = luaL_ref(lua_, LUA_REGISTRYINDEX);
    compiled->hash = redis::Script("", std::string(source)).hash();
  }
  return *by_source_.emplace(std::string(source), std::move(compiled)).first->second;
}

void Lua::know(const redis::Script& script) {
  if (by_hash_.contains(script.hash())) return;
  auto command = script.by_source({}, {});
  by_hash_.emplace(script.hash(), &compiled(command.word(1)));
}

const Lua::Compiled* Lua::known(std::string_view hash) const {
  auto at = by_hash_.find(hash);
  return at == by_hash_.end() ? nullptr : at->second;
}

Reply Lua::run(Execution& x, const Compiled& script, Args keys, Args args) {
  if (!script.problem.empty()) return error(script.problem);
  execution_ = &x;
  x.in_script = true;
  set_list("KEYS", keys);
  set_list("ARGV", args);
  lua_rawgeti(lua_, LUA_REGISTRYINDEX, on_raised_);
  lua_rawgeti(lua_, LUA_REGISTRYINDEX, script.function);
  bool is_done = lua_pcall(lua_, 0, 1, -2) == 0;
  std::string where;
  if (!is_done) {
    if (auto place = field_of(lua_, "where"))
      where = fmt::format(" script: {}, on {}.", script.hash, *place);
  }
  Reply reply = take_reply(lua_);
  if (!is_done) reply.text += where;
  lua_settop(lua_, 0);
  return reply;
}

}  // namespace

Reply run_script(Execution& x, std::string_view source, Args keys, Args args) {
  Lua& lua = Lua::of_this_thread();
  return lua.run(x, lua.compiled(source), keys, args);
}

void know_script(const redis::Script& script) { Lua::of_this_thread().know(script); }

Reply run_known_script(Execution& x, std::string_view hash, Args keys, Args args) {
  Lua& lua = Lua::of_this_thread();
  const auto* script = lua.known(hash);
  if (!script) return error("NOSCRIPT No matching script. Please use EVAL.");
  return lua.run(x, *script, keys, args);
}

}  // namespace warren::sim
