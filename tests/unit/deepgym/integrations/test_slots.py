import asyncio
import threading

import pytest

from deepgym.integrations.slots import Slots


@pytest.mark.parametrize("count", [0, -1])
def test_there_is_at_least_one_place(count):
    with pytest.raises(ValueError, match="at least 1"):
        Slots(count)


@pytest.mark.parametrize("count", [1.5, "a", None, True])
def test_places_are_counted_in_whole_numbers(count):
    with pytest.raises(TypeError, match="whole number"):
        Slots(count)


async def test_never_more_than_count_and_first_come_first_served():
    slots, order, most = Slots(2), [], 0

    async def work(name):
        nonlocal most
        async with slots:
            order.append(name)
            most = max(most, slots.in_use)
            await asyncio.sleep(0)

    await asyncio.gather(*(work(name) for name in range(7)))
    assert order == list(range(7))
    assert most == 2
    assert (slots.in_use, slots.waiting) == (0, 0)


async def test_who_gives_up_waiting_leaves_the_queue():
    slots = Slots(1)
    async with slots:
        waiting = asyncio.create_task(slots.__aenter__())
        await asyncio.sleep(0)
        assert slots.waiting == 1
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        assert slots.waiting == 0
    assert slots.in_use == 0


async def test_a_place_handed_to_who_just_gave_up_goes_to_the_next():
    slots, entered = Slots(1), []

    async def work(name):
        async with slots:
            entered.append(name)

    await slots.__aenter__()
    unlucky, next_one = asyncio.create_task(work("unlucky")), asyncio.create_task(work("next"))
    await asyncio.sleep(0)
    await slots.__aexit__(None, None, None)  # the place now belongs to `unlucky`, who has not woken up yet
    unlucky.cancel()
    await asyncio.wait_for(next_one, 5)
    assert entered == ["next"]
    assert slots.in_use == 0


def test_two_loops_share_the_places():
    slots, lock, now, most = Slots(3), threading.Lock(), 0, 0

    async def work():
        nonlocal now, most
        async with slots:
            with lock:
                now += 1
                most = max(most, now)
            await asyncio.sleep(0.001)
            with lock:
                now -= 1

    async def many():
        await asyncio.wait_for(asyncio.gather(*(work() for _ in range(30))), 30)

    threads = [threading.Thread(target=lambda: asyncio.run(many())) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert most == 3
    assert (slots.in_use, slots.waiting) == (0, 0)


async def test_a_waiter_whose_loop_is_closed_is_passed_over():
    slots = Slots(1)
    await slots.__aenter__()
    loop = asyncio.new_event_loop()
    slots._waiting.append((loop, loop.create_future()))
    loop.close()
    await slots.__aexit__(None, None, None)
    assert slots.in_use == 0
