#include "redis/command.h"

#include <doctest/doctest.h>
