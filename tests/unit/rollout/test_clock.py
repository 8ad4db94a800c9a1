from openrlhf.rollout.clock import BusyClock


def test_overlapping_intervals_count_once():
    # [0, 3] and [2, 5] overlap: 5 busy seconds, not 6. [7, 8] adds one; the gap [5, 7] does not count.
    time = 0.0
    clock = BusyClock(now=lambda: time)
    clock.start()
    time = 2.0
    clock.start()
    assert clock.active == 2
    time = 3.0
    clock.stop()
    assert clock.seconds == 3.0  # still running
    time = 5.0
    clock.stop()
    assert clock.seconds == 5.0
    time = 7.0
    with clock.running():
        time = 8.0
    assert clock.seconds == 6.0
    assert clock.active == 0
