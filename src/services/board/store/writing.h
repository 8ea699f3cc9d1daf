#pragma once
// What the calls that write to a board are made of.
#include "primitives/lease/fence.h"
#include "redis/resp/reply.h"
#include "redis/script.h"
#include "services/board/store/encoding.h"
#include "services/board/store/scripts.h"

namespace warren::board {

// All scripts that write begin with the same lines.
inline redis::Script writing(const redis::Script& script) {
  return behind_fence({script.name(), scripts::board_write.source() + script.source()});
}

inline void append(Words& words, const Fields& fields) {
  for (const auto& [field, value] : fields) {
    words.push_back(field);
    words.push_back(value);
  }
}

// Of what a script answered: {code, text, …}.
inline std::int64_t code_of(const redis::Reply& reply) {
  return reply.items.empty() ? 0 : reply.items[0].number;
}
inline std::string text_of(const redis::Reply& reply, std::size_t item) {
  return item < reply.items.size() ? reply.items[item].text : std::string();
}
inline std::int64_t number_of(const redis::Reply& reply, std::size_t item) {
  return std::strtoll(text_of(reply, item).c_str(), nullptr, 10);
}

}  // namespace warren::board
